"""The fast path of sends: the queues of a topic with all that a plain message needs, and answers of plain success.

Nearly all sends take this path, so what they have in common is looked up once and kept. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketpy.results import SendResult, SendStatus

if TYPE_CHECKING:
    from rocketpy.client.attempt import Attempt
    from rocketpy.client.meter import Cell
    from rocketpy.message import MessageQueue
    from rocketpy.wire.fast_answer import SendAnswer
    from rocketpy.wire.templates import SendTemplate

__all__ = ["Warm", "Way", "quick_result"]

_SEND_OK = SendStatus.SEND_OK
"""Looked up once, because finding a member of an enumeration takes longer than most steps of a send."""


class Way(NamedTuple):
    """A queue, with what a send to it needs."""

    queue: MessageQueue
    """The queue."""
    broker_name: str
    """The name of the broker that holds it."""
    address: str
    """The address of that broker."""
    template: SendTemplate
    """The frame of a send, but for what differs from message to message."""
    cell: Cell
    """Counts the sends to the topic at the broker."""


class Warm(NamedTuple):
    """What the plain sends to a topic have in common. Immutable: it is replaced as a whole."""

    version: int
    """The version of the routes; this is out of date once they have another one."""
    ways: tuple[Way, ...]
    """All queues that may be sent to."""
    counter: Iterator[int]
    """Gives the number of the next send, which chooses the queue."""
    several_brokers: bool
    """Whether the topic has more than one broker."""


def quick_result(attempt: Attempt[Any], found: SendAnswer) -> SendResult:
    """Return the result of a plain success, as nearly every answer is."""
    offset_message_id, queue_id, queue_offset, transaction_id, region, trace_on = found
    queue = attempt.queue
    if queue_id != queue.queue_id:
        queue = queue._replace(queue_id=queue_id)
    values = (
        _SEND_OK,
        attempt.outgoing.message_id,
        offset_message_id,
        queue,
        queue_offset,
        transaction_id,
        region or "DefaultRegion",
        trace_on is not False,
        None,
    )
    return tuple.__new__(SendResult, values)  # the class's own `__new__` takes twice as long
