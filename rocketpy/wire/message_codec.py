"""Reading stored messages: one record, or the row of records of a pull answer.

Every length is checked against the record and the record against the data before anything is cut out. What is written
lives in `record` and `batch`; their functions are offered here too. Plays the part of MessageDecoder.
"""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import Any

from rocketpy.errors import MessageDecodeError
from rocketpy.message import MessageExt, RecordHead
from rocketpy.wire.batch import BatchItem, decode_batch, encode_batch
from rocketpy.wire.compression import decompress
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE
from rocketpy.wire.record import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    body_crc,
    encode_record,
    head_layout,
    read_head,
)
from rocketpy.wire.stored_message import StoredMessage
from rocketpy.wire.sysflag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6

__all__ = [
    "PHYSICAL_OFFSET_AT",
    "QUEUE_OFFSET_AT",
    "BatchItem",
    "RecordHead",
    "body_crc",
    "decode_batch",
    "decode_messages",
    "decode_record",
    "encode_batch",
    "encode_record",
    "read_head",
]

_HEAD_V4 = head_layout(0)
_unpack_v4 = _HEAD_V4.unpack_from
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_new_message = StoredMessage.__new__


def decode_messages(
    data: bytes, *, broker_name: str = "", check_crc: bool = True, limit: int = DEFAULT_LIMITS.max_inflated
) -> list[MessageExt]:
    """All messages of a pull answer, in order.

    Args:
        data: Records without anything between them.
        broker_name: Put on every message.
        check_crc: Whether to compare bodies with their CRC.
        limit: Bytes that a body may unpack to.

    Raises:
        MessageDecodeError: a record is damaged; ``decoded`` of the error holds the messages before it, ``position``
            says where the record begins. Offsets must not move past what was decoded.
    """
    messages: list[MessageExt] = []
    position, end = 0, len(data)
    while position < end:
        try:
            message = decode_record(data, position, broker_name=broker_name, check_crc=check_crc, limit=limit)
        except MessageDecodeError as error:
            error.decoded = tuple(messages)
            raise
        messages.append(message)
        position += message.store_size
    return messages


def decode_record(
    data: bytes,
    offset: int = 0,
    *,
    broker_name: str = "",
    check_crc: bool = True,
    limit: int = DEFAULT_LIMITS.max_inflated,
) -> MessageExt:
    """The message whose record begins at `offset`.

    Raises:
        MessageDecodeError: the record is damaged or not whole.
    """
    body_at = offset + _HEAD_V4.size
    try:
        head: Any = _unpack_v4(data, offset)
        if head[7] & _HOSTS_V6:
            layout = head_layout(head[7])
            head = layout.unpack_from(data, offset)
            body_at = offset + layout.size
        total = head[0]
        body_end = body_at + head[14]
        end = offset + total
        # The shortest tail is a topic of no bytes and properties of no bytes: one byte and two.
        if head[14] < 0 or body_end + 3 > end or end > len(data):
            raise _bad_record(data, offset)
        if head[1] == MAGIC_V1:
            topic_at = body_end + 1
            topic_end = topic_at + data[body_end]
        elif head[1] == MAGIC_V2:
            topic_at = body_end + 2
            topic_end = topic_at + (data[body_end] << 8 | data[body_end + 1])
        else:
            raise _bad_record(data, offset)
        properties_at = topic_end + 2
        if (
            not 0 <= end - properties_at <= MAX_PROPERTIES_SIZE
            or data[topic_end] << 8 | data[topic_end + 1] != end - properties_at
        ):
            raise _bad_record(data, offset)
    except struct.error as exc:
        raise _bad_record(data, offset) from exc
    body = data[body_at:body_end]
    if check_crc and zlib.crc32(body) & 0x7FFFFFFF != head[2]:
        raise MessageDecodeError(f"the body of the message at {offset} does not match its CRC", position=offset)
    message = _new_message(StoredMessage)
    message._head = head
    message.topic = str(data[topic_at:topic_end], "utf-8", "replace")
    message.broker_name = broker_name
    message._packed_properties = data[properties_at:end]
    if head[7] & COMPRESSED:
        message._inflate = partial(decompress, body, head[7], limit=limit)
    else:
        message._body = body
        message._inflate = None
    return message


def _bad_record(data: bytes, offset: int) -> MessageDecodeError:
    """Say what is wrong with a record that failed a check."""
    left = len(data) - offset
    try:
        head = read_head(data, offset)
    except MessageDecodeError as error:
        return error
    if head.magic == BLANK_MAGIC:
        reason = "is the filler of a commit log file, not a message"
    elif head.magic not in (MAGIC_V1, MAGIC_V2):
        reason = f"has the unknown magic number {head.magic & 0xFFFFFFFF:#010x}"
    elif head.total_size > left:
        reason = f"says that it takes {head.total_size} bytes, {left} are left"
    else:
        reason = f"takes {head.total_size} bytes, which its parts do not add up to"
    return MessageDecodeError(f"the record at {offset} {reason}", position=offset)
