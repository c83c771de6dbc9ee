"""Reading the records of a pull answer into columns, without an object for each message.

What wants messages takes `rocketpy.wire.message_codec`; this is for readers that hand on tables. The checks are the
same.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, NamedTuple
from zlib import crc32

import attrs

from rocketpy.errors import MessageDecodeError
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.limits import DEFAULT_LIMITS
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, decode_properties
from rocketpy.wire.record import MAGIC_V1, MAGIC_V2, head_layout, read_head
from rocketpy.wire.sysflag import BORN_HOST_V6, COMPRESSED, INNER_BATCH, NEED_UNWRAP, STORE_HOST_V6

__all__ = ["ColumnHead", "RecordColumns", "properties_of", "read_columns"]

_unpack_v4 = struct.Struct(">iii8xqqiq8xq8s12xi").unpack_from
_HEAD_SIZE_V4 = head_layout(0).size
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_BATCH = INNER_BATCH | NEED_UNWRAP
_ANY = sys.maxsize
_SPECIAL = _HOSTS_V6 | COMPRESSED | _BATCH


class ColumnHead(NamedTuple):
    """What readers of tables want of the fixed part of a stored message; what they do not want is skipped."""

    total_size: int
    """Bytes of the whole record, this field included."""
    magic: int
    """The magic code, which says whether the topic's length takes one byte or two."""
    body_crc: int
    """CRC-32 of the body as stored, without its top bit."""
    queue_offset: int
    """Position in the queue."""
    physical_offset: int
    """Position in the commit log."""
    sys_flag: int
    """Bits of `rocketpy.wire.sysflag`."""
    born_timestamp: int
    """When the producer sent it, ms since 1970."""
    store_timestamp: int
    """When the broker stored it, ms since 1970."""
    store_host: bytes
    """The broker's address (4 or 16 bytes) and port (4 bytes)."""
    body_length: int
    """Bytes of the body as stored."""


@attrs.define
class RecordColumns:
    """Messages, one list for each part. The lists are of equal length."""

    heads: list[tuple[Any, ...]] = attrs.Factory(list)
    """Of each, in the order of `ColumnHead`."""
    bodies: list[bytes] = attrs.Factory(list)
    """Unpacked."""
    properties: list[bytes] = attrs.Factory(list)
    """Encoded, as stored; `properties_of` reads them."""

    def __len__(self) -> int:
        """How many messages."""
        return len(self.heads)


def read_columns(
    data: bytes,
    into: RecordColumns,
    first: int,
    until: int,
    *,
    position: int = 0,
    most: int = _ANY,
    limit: int = DEFAULT_LIMITS.max_inflated,
) -> tuple[int, int]:
    """Append the messages with queue offsets from `first` on and before `until`.

    Returns the position to continue at, and the bytes of the bodies that were appended.

    Args:
        data: records with nothing between them.
        into: where to append.
        first: the first queue offset that is wanted.
        until: the first queue offset that is not wanted any more.
        position: where in the data to begin.
        most: stop once so many bytes have been unpacked: a few kilobytes of packed bodies can become a gigabyte.
        limit: bytes that a body may unpack to.

    Raises:
        MessageDecodeError: a record is damaged, the one that begins at its `position`; those before it are appended.
    """
    return _read(data, into, first, until, position, most, limit)


def _read(
    data: bytes, into: RecordColumns, first: int, until: int, position: int, most: int, limit: int
) -> tuple[int, int]:
    stop, taken, unpacked = len(data), 0, 0
    add_head, add_body, add_properties = into.heads.append, into.bodies.append, into.properties.append
    try:
        while position < stop and unpacked < most:
            head = _unpack_v4(data, position)
            if head[5] & _SPECIAL:
                position, size = _read_special(data, position, into, first, until, limit)
                unpacked += size
                continue
            body_at = position + _HEAD_SIZE_V4
            end, body_end, magic = position + head[0], body_at + head[9], head[1]
            if body_end < body_at or body_end + 3 > end or end > stop:
                raise _bad_record(data, position)
            if magic == MAGIC_V1:
                text_at = body_end + 3 + data[body_end]
            elif magic == MAGIC_V2:
                text_at = body_end + 4 + (data[body_end] << 8 | data[body_end + 1])
            else:
                raise _bad_record(data, position)
            size, body = end - text_at, data[body_at:body_end]
            if not 0 <= size <= MAX_PROPERTIES_SIZE or data[text_at - 2] << 8 | data[text_at - 1] != size:
                raise _bad_record(data, position)
            if crc32(body) & 0x7FFFFFFF != head[2]:
                raise _bad_record(data, position)
            if first <= head[3] < until:
                add_head(head)
                add_body(body)
                add_properties(data[text_at:end])
                taken += head[9]
            position = end
    except struct.error as exc:
        raise _bad_record(data, position) from exc
    return position, taken + unpacked


def _read_special(
    data: bytes, position: int, into: RecordColumns, first: int, until: int, limit: int
) -> tuple[int, int]:
    """A record with IPv6 hosts, a packed body or a whole batch in it. Returns where it ends, and the bytes appended."""
    message = decode_record(data, position, limit=limit)  # checks everything
    whole = read_head(data, position)
    head = ColumnHead._make(getattr(whole, name) for name in ColumnHead._fields)
    end = position + whole.total_size
    if whole.sys_flag & _BATCH == _BATCH:
        return end, _read_batch(message.body, head, into, first, until)
    if not first <= whole.queue_offset < until:
        return end, 0
    body = message.body
    into.heads.append(tuple(head))
    into.bodies.append(body)
    topic_at = position + head_layout(whole.sys_flag).size + whole.body_length
    into.properties.append(_properties_at(data, topic_at, whole.magic, end))
    return end, len(body)


def _properties_at(data: bytes, topic_at: int, magic: int, end: int) -> bytes:
    size = 1 if magic == MAGIC_V1 else 2
    return data[topic_at + size + int.from_bytes(data[topic_at : topic_at + size], "big") + 2 : end]


def _read_batch(body: bytes, head: ColumnHead, into: RecordColumns, first: int, until: int) -> int:
    """The messages of a batch that was stored whole, each at its own queue offset."""
    taken = 0
    for index, item in enumerate(decode_batch(body)):
        offset = head.queue_offset + index
        if first <= offset < until:
            into.heads.append(tuple(head._replace(queue_offset=offset, body_length=len(item.body))))
            into.bodies.append(item.body)
            into.properties.append(item.properties)
            taken += len(item.body)
    return taken


def _bad_record(data: bytes, position: int) -> MessageDecodeError:
    """Say what is wrong with a record that failed a check, as the other decoder says it."""
    try:
        decode_record(data, position)
    except MessageDecodeError as error:
        return error
    return MessageDecodeError(f"the record at {position} is damaged", position=position)


def properties_of(packed: bytes) -> dict[str, str]:
    """The properties of a message, by their names on the wire; as `decode_properties` reads them, in less time."""
    text = packed.decode("utf-8", "replace")
    try:
        # Brokers end every pair with a separator, so what follows the last one is empty.
        found: dict[str, str] = dict([pair.split("\x01") for pair in text[:-1].split("\x02")])
    except ValueError:  # a pair has more or fewer parts than two
        return decode_properties(text)
    return decode_properties(text) if text[-1:] != "\x02" or "" in found or "" in found.values() else found
