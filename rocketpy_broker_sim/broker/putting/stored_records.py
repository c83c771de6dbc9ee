"""From stored records back to messages on their way into the log: what is put again keeps body, flags and birth.

The body stays as it was stored, compressed or not. Used for messages that were delayed or that a consumer gave back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.message_id import offset_message_id
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.record import head_layout, read_head
from rocketpy_broker_sim.store.put_result import IncomingMessage

if TYPE_CHECKING:
    from rocketpy.message import RecordHead

__all__ = ["StoredRecord", "stored_record", "stored_records"]

_CRC = "__CRC32#"
"""Belongs to the record that it was computed for."""


class StoredRecord(NamedTuple):
    """A record taken apart.

    Attributes:
        head: Where and when it was stored.
        message: Ready to be put again, to the same topic and queue.
        properties: Its properties, without what only this record may carry.
    """

    head: RecordHead
    message: IncomingMessage
    properties: dict[str, str]

    @property
    def offset_message_id(self) -> str:
        """The id that names broker and position."""
        return offset_message_id(self.head.store_host, self.head.physical_offset)


def stored_records(data: bytes) -> Iterator[StoredRecord]:
    """The records of a read, one by one.

    Raises:
        MessageDecodeError: a record is damaged; those before it have been given.
    """
    position = 0
    while position < len(data):
        record = stored_record(data, position)
        yield record
        position += record.head.total_size


def stored_record(data: bytes, position: int = 0, *, encoded: bool = True) -> StoredRecord:
    """The record that begins at `position`.

    Args:
        data: Records.
        position: Where it begins.
        encoded: Whether the message gets its properties; otherwise the caller changes them first.

    Raises:
        MessageDecodeError: it is damaged or not whole.
    """
    decoded = decode_record(data, position)
    head = read_head(data, position)
    body_at = position + head_layout(head.sys_flag).size
    properties = decoded.wire_properties
    properties.pop(_CRC, None)
    message = IncomingMessage(
        topic=decoded.topic,
        queue_id=head.queue_id,
        body=data[body_at : body_at + head.body_length],
        properties=encode_properties(properties) if encoded else "",
        flag=head.flag,
        sys_flag=head.sys_flag,
        born_timestamp=head.born_timestamp,
        born_host=head.born_host,
        store_host=head.store_host,
        reconsume_times=head.reconsume_times,
        prepared_transaction_offset=head.prepared_transaction_offset,
        was_stored=True,
    )
    return StoredRecord(head, message, properties)
