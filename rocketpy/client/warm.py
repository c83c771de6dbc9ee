"""What nearly all sends have in common: the ways of plain messages to a topic, and answers that say that all went well.

Looked up or compared once, so that such a send takes as few steps as it can. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketpy.results import SendResult, SendStatus

if TYPE_CHECKING:
    from rocketpy.client.meter import Cell
    from rocketpy.client.sending import Try
    from rocketpy.message import MessageQueue
    from rocketpy.wire.fast_answer import SendAnswer
    from rocketpy.wire.templates import SendTemplate

__all__ = ["Warm", "Way", "quick_result"]

_SEND_OK = SendStatus.SEND_OK
"""Looked up once: a member of an enumeration takes longer to find than most else that a send does."""


class Way(NamedTuple):
    """The way to a queue."""

    queue: MessageQueue
    broker_name: str
    address: str
    template: SendTemplate
    cell: Cell
    """Counts the sends to the topic at the broker."""


class Warm(NamedTuple):
    """What the plain sends to a topic have in common; replaced as a whole."""

    version: int
    """Of the routes: with another one this is of no use any more."""
    ways: tuple[Way, ...]
    counter: Iterator[int]
    several_brokers: bool


def quick_result(attempt: Try[Any], found: SendAnswer) -> SendResult:
    """The result of a plain success, which nearly every answer is."""
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
    return tuple.__new__(SendResult, values)  # the class's own takes twice as long
