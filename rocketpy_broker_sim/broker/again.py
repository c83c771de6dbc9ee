"""Putting a message again that waited: one that was delayed goes to the topic that it was meant for.

It was acknowledged long ago, so only what can never be stored is left out. Plays the part of doPut in TimerMessageStore
and of what ScheduleMessageService does with the result of a put.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from rocketpy.wire.names import TRANSACTION_HALF_TOPIC, is_valid_stored_topic
from rocketpy_broker_sim.broker.delay import target
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = ["Again", "may_go", "put_again", "readable"]

_NEVER_STORABLE = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


class Again(Enum):
    """What became of it."""

    PUT = "put"
    NEVER = "cannot be stored"
    LATER = "not now"


def may_go(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """Topic and queue that a message was meant for; None when nothing may be delivered there."""
    goal = target(dict(properties))
    if goal is None or goal[0] == TRANSACTION_HALF_TOPIC or not is_valid_stored_topic(goal[0]):
        return None
    return goal


def readable(queues: int, queue_id: int) -> int:
    """The queue that a message was meant for, or another one if the topic has fewer read queues by now.

    Apache's broker always uses the original queue, where no consumer gets the message.
    """
    return queue_id % queues if queues else queue_id


def put_again(store: MessageStore, message: IncomingMessage) -> tuple[Again, PutMessageStatus]:
    """Put a message into its queue, which is made where it has to be; the caller commits."""
    status = store.put(message).status
    if status is PutMessageStatus.TOO_MANY_QUEUES:  # it was taken before there were so many
        store.open_queue(message, bounded=False)
        status = store.put(message).status
    if status is PutMessageStatus.PUT_OK:
        return Again.PUT, status
    return (Again.NEVER if status in _NEVER_STORABLE else Again.LATER), status
