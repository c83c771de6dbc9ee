"""A stored message in its parts, none of them unpacked: what a tool shows or writes again byte for byte.

Consumers read `MessageExt` with `rocketpy.wire.message_codec` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.record import MAGIC_V1, encode_record, head_layout, read_head

if TYPE_CHECKING:
    from rocketpy.message.message_ext import RecordHead

__all__ = ["RawRecord", "read_records"]


class RawRecord(NamedTuple):
    """One record."""

    head: RecordHead
    """The fixed part."""
    body: bytes
    """As stored: packed if the flag word says so."""
    topic: bytes
    """The topic's name, encoded."""
    properties: bytes
    """In their encoded form."""

    def encode(self) -> bytes:
        """The record again; its size, magic number and CRC are computed again.

        Raises:
            LocalProtocolError: a part does not fit the layout.
        """
        head = self.head
        return encode_record(
            topic=self.topic,
            body=self.body,
            properties=self.properties,
            queue_id=head.queue_id,
            flag=head.flag,
            queue_offset=head.queue_offset,
            physical_offset=head.physical_offset,
            sys_flag=head.sys_flag,
            born_timestamp=head.born_timestamp,
            born_host=head.born_host,
            store_timestamp=head.store_timestamp,
            store_host=head.store_host,
            reconsume_times=head.reconsume_times,
            prepared_transaction_offset=head.prepared_transaction_offset,
        )


def read_records(data: bytes) -> list[RawRecord]:
    """The records of a body, with nothing between them.

    Raises:
        MessageDecodeError: a record is damaged.
    """
    found: list[RawRecord] = []
    position = 0
    while position < len(data):
        decode_record(data, position)  # which checks every length that is used here
        head = read_head(data, position)
        found.append(_cut(data, position, head))
        position += head.total_size
    return found


def _cut(data: bytes, position: int, head: RecordHead) -> RawRecord:
    body_at = position + head_layout(head.sys_flag).size
    body_end = body_at + head.body_length
    topic_at = body_end + (1 if head.magic == MAGIC_V1 else 2)
    topic_end = topic_at + int.from_bytes(data[body_end:topic_at], "big")
    end = position + head.total_size
    return RawRecord(head, data[body_at:body_end], data[topic_at:topic_end], data[topic_end + 2 : end])
