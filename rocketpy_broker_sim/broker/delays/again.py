"""Putting a delayed message into its real topic, once it is due.

The message was acknowledged long ago, so it is skipped only if it can never be stored. Plays the part of doPut in
TimerMessageStore and of what ScheduleMessageService does with the result of a put.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.wire.names import TRANSACTION_HALF_TOPIC, is_valid_stored_topic
from rocketpy_broker_sim.broker.delays.delay import target
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = ["Redelivery", "may_go", "put_again", "readable"]

log = get_logger(__name__)

_NEVER_STORABLE = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


class Redelivery(Enum):
    """The outcome of such a put."""

    PUT = "put"
    NEVER = "cannot be stored"
    LATER = "not now"
    NO_QUEUE = "its queue cannot be made now"


def may_go(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """The real topic and queue of a message; None if no message may be delivered there."""
    goal = target(dict(properties))
    if goal is None or goal[0] == TRANSACTION_HALF_TOPIC or not is_valid_stored_topic(goal[0]):
        return None
    return goal


def readable(queues: int, queue_id: int) -> int:
    """The real queue of a message, or another one if its topic has fewer read queues by now.

    Apache's broker always uses the original queue, where no consumer gets the message.

    Args:
        queues: The number of read queues of the topic; 0 for a topic that does not exist.
        queue_id: The queue that the message was sent to.
    """
    return queue_id % queues if queues else queue_id


def put_again(store: MessageStore, message: IncomingMessage) -> tuple[Redelivery, PutMessageStatus]:
    """Put a message into its queue, which is made if necessary; the caller commits."""
    try:
        status = store.put(message).status
        if status is PutMessageStatus.TOO_MANY_QUEUES:  # the message was accepted before there were so many
            store.open_queue(message, bounded=False)
            status = store.put(message).status
    except StoreError as exc:
        log.error("no message can be put into %s now: %s", message.topic, exc)
        return Redelivery.NO_QUEUE, PutMessageStatus.UNKNOWN_ERROR
    if status is PutMessageStatus.PUT_OK:
        return Redelivery.PUT, status
    return (Redelivery.NEVER if status in _NEVER_STORABLE else Redelivery.LATER), status
