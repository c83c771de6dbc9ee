"""Reading stored messages: one record, or the row of records of a pull answer.

Every length is checked against the record and the record against the data before anything is cut out. What is written
lives in `record` and `batch`; their functions are offered here too. Plays the part of MessageDecoder.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any
from zlib import crc32

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
_HEAD_SIZE_V4 = _HEAD_V4.size
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_new_message = StoredMessage.__new__


def decode_messages(
    data: bytes,
    *,
    broker_name: str = "",
    check_crc: bool = True,
    limit: int = DEFAULT_LIMITS.max_inflated,
    more_properties: bytes = b"",
) -> list[MessageExt]:
    """All messages of a pull answer, in order.

    Args:
        data: Records without anything between them.
        broker_name: Put on every message.
        check_crc: Whether to compare bodies with their CRC.
        limit: Bytes that a body may unpack to.
        more_properties: Put on every message, as `encode_properties` writes them; they win over stored ones of the
            same name.

    Raises:
        MessageDecodeError: a record is damaged; ``decoded`` of the error holds the messages before it, ``position``
            says where the record begins. Offsets must not move past what was decoded.
    """
    messages: list[MessageExt] = []
    # Old brokers leave out the last separator, and between pairs one too many does no harm.
    more = b"\x02" + more_properties if more_properties else b""
    try:
        _decode_into(messages, data, 0, len(data), broker_name, check_crc, limit, more)
    except MessageDecodeError as error:
        error.decoded = tuple(messages)
        raise
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
    if offset < 0:
        raise MessageDecodeError(f"no record begins at {offset}", position=offset)
    messages: list[MessageExt] = []
    # No record is shorter than two bytes, so the loop ends after the first.
    _decode_into(messages, data, offset, offset + 1, broker_name, check_crc, limit, b"")
    return messages[0]


def _decode_into(
    into: list[MessageExt], data: bytes, position: int, stop: int, broker: str, check_crc: bool, limit: int, more: bytes
) -> None:
    """Decode records that begin before `stop`. One flat loop: calls would cost as much as what they do."""
    size, magic = len(data), None
    named, length, topic = b"", 0, ""  # as in the record before: those of a pull answer have one topic
    try:
        while position < stop:
            head: Any = _unpack_v4(data, position)
            body_at = position + _HEAD_SIZE_V4
            sys_flag = head[7]
            if sys_flag & _HOSTS_V6:
                head, body_at = _unpack_v6(data, position, sys_flag)
            end = position + head[0]
            body_end = body_at + head[14]
            # The shortest tail is a topic and properties of no bytes, which leaves three bytes of lengths.
            if body_end < body_at or body_end + 3 > end or end > size:
                raise _bad_record(data, position)
            topic_end = body_end + length
            if head[1] != magic or data[body_end:topic_end] != named:
                magic = head[1]
                named, topic = _topic_of(data, position, magic, body_end)
                length = len(named)
                topic_end = body_end + length
            left = end - topic_end - 2
            if not 0 <= left <= MAX_PROPERTIES_SIZE or data[topic_end] << 8 | data[topic_end + 1] != left:
                raise _bad_record(data, position)
            body = data[body_at:body_end]
            if check_crc and crc32(body) & 0x7FFFFFFF != head[2]:
                raise _bad_body(position)
            message = _new_message(StoredMessage)
            message._head = head
            message.topic = topic
            message.broker_name = broker
            message._packed_properties = data[topic_end + 2 : end] + more
            if sys_flag & COMPRESSED:
                message._inflate = partial(decompress, body, sys_flag, limit=limit)
            else:
                message._body = body
                message._inflate = None
            into.append(message)
            position = end
    except struct.error as exc:
        raise _bad_record(data, position) from exc


def _topic_of(data: bytes, position: int, magic: int, at: int) -> tuple[bytes, str]:
    """The topic at `at` of the record at `position`: with its length in front, and as text."""
    if magic == MAGIC_V1:
        begin = at + 1
        end = begin + data[at]
    elif magic == MAGIC_V2:
        begin = at + 2
        end = begin + (data[at] << 8 | data[at + 1])
    else:
        raise _bad_record(data, position)
    return data[at:end], data[begin:end].decode("utf-8", "replace")


def _unpack_v6(data: bytes, position: int, sys_flag: int) -> tuple[Any, int]:
    layout = head_layout(sys_flag)
    return layout.unpack_from(data, position), position + layout.size


def _bad_body(position: int) -> MessageDecodeError:
    return MessageDecodeError(f"the body of the record at {position} does not match its CRC", position=position)


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
