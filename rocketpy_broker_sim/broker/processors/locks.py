"""Locks on queues for orderly consumers: LOCK_BATCH_MQ and UNLOCK_BATCH_MQ. Plays AdminBrokerProcessor's part of it.

`onlyThisBroker` asks the broker not to ask its replicas. There are none here, so it makes no difference, as with
Apache's broker unless `lockInStrictMode` is set.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from rocketpy.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.wire.limits import REQUEST_LIMITS
from rocketpy_broker_sim.broker.processors.checks import check_client_id, check_group, check_topic, invalid
from rocketpy_broker_sim.serving.encoding import encode_steps

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.views import LockView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["lock_queues", "unlock_queues"]

_MOST_BROKER_NAME = 255
_QUEUES_A_STEP = 16


def lock_queues(broker: LockView, connection: Connection, request: RemotingCommand) -> Steps:
    """Lock queues for a client, or renew its locks, and answer with the queues that it holds. A sliced processor."""
    asked = yield from LockBatchRequestBody.decode_steps(request.body, limits=REQUEST_LIMITS)
    group, client_id = check_group(asked.consumer_group or ""), check_client_id(asked.client_id)
    yield from _check(asked.mq_set)
    held: set[MessageQueue] = set()
    wanted = asked.mq_set
    while wanted:
        # Taken out of the request, so that a queue is not there twice once the table has it.
        stretch = [wanted.pop() for _ in range(min(_QUEUES_A_STEP, len(wanted)))]
        held.update(broker.locks.lock_together(group, stretch, client_id))
        yield
    body = yield from encode_steps(LockBatchResponseBody(lock_ok_mq_set=held))
    return request.answer(body=body)


def unlock_queues(broker: LockView, connection: Connection, request: RemotingCommand) -> Steps:
    """Unlock queues. It is not an error if the client does not hold some of them. A sliced processor."""
    asked = yield from UnlockBatchRequestBody.decode_steps(request.body, limits=REQUEST_LIMITS)
    group, client_id = check_group(asked.consumer_group or ""), check_client_id(asked.client_id)
    for number, queue in enumerate(asked.mq_set):
        broker.locks.unlock(group, queue, client_id)
        if number % _QUEUES_A_STEP == _QUEUES_A_STEP - 1:
            yield
    return request.answer()


def _check(queues: set[MessageQueue]) -> Generator[None, None, None]:
    """Refuse impossible queues before any queue is locked.

    Raises:
        BrokerError: a name or a number is not acceptable.
    """
    for number, queue in enumerate(queues):
        check_topic(queue.topic)
        if not 0 < len(queue.broker_name) <= _MOST_BROKER_NAME:
            raise invalid(f"the name of a broker is blank, or has more than {_MOST_BROKER_NAME} characters")
        if queue.queue_id < 0:
            raise invalid(f"the queue id {queue.queue_id} is negative")
        if number % _QUEUES_A_STEP == _QUEUES_A_STEP - 1:
            yield
