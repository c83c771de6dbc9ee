"""Locks on queues, which ordered consumption takes at the broker (LOCK_BATCH_MQ, UNLOCK_BATCH_MQ)."""

from __future__ import annotations

from rocketpy.message import MessageQueue
from rocketpy.wire.json_body import Body, body, member

__all__ = ["LockBatchRequestBody", "LockBatchResponseBody", "UnlockBatchRequestBody"]


@body
class LockBatchRequestBody(Body):
    """Lock these queues for a client, or lock them again before the lock runs out."""

    consumer_group: str | None = None
    client_id: str | None = None
    only_this_broker: bool = False
    mq_set: set[MessageQueue] = member(factory=set)


@body
class LockBatchResponseBody(Body):
    """The queues that the client holds now."""

    lock_ok_mq_set: set[MessageQueue] = member(factory=set, name="lockOKMQSet")


@body
class UnlockBatchRequestBody(Body):
    """Give these queues back."""

    consumer_group: str | None = None
    client_id: str | None = None
    only_this_broker: bool = False
    mq_set: set[MessageQueue] = member(factory=set)
