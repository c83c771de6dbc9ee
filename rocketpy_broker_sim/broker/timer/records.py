"""The records of the timer's topic, as the timer needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketpy.message import PropertyName
from rocketpy.wire.message_codec import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["TimerRecord", "timer_records"]


class TimerRecord(NamedTuple):
    """A record of the timer's topic.

    Attributes:
        position: Its position in the commit log.
        size: Its size in bytes.
        queue_offset: Its offset in the timer's queue.
        stored_ms: When it was stored.
        properties: The properties of the message.
    """

    position: int
    size: int
    queue_offset: int
    stored_ms: int
    properties: Mapping[str, str]

    @property
    def topic(self) -> str:
        """The topic to which the message will be delivered."""
        return self.properties.get(PropertyName.REAL_TOPIC, "")


def timer_records(data: bytes) -> Iterator[TimerRecord]:
    """The records of a read, one by one.

    Raises:
        MessageDecodeError: a record is damaged; those before it have been yielded.
    """
    at = 0
    while at < len(data):
        found = decode_record(data, at)
        yield TimerRecord(
            found.commit_log_offset, found.store_size, found.queue_offset, found.store_timestamp, found.wire_properties
        )
        at += found.store_size
