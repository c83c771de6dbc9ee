"""The layout of a stored message: writing a record, and reading its head. Pull answers consist of such records.

There are two versions, told by the magic number: the second has two bytes for the length of the topic. Plays the part
of MessageExtEncoder and of the layout half of MessageDecoder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate, count, repeat
from typing import Final
from zlib import crc32

from rocketpy.errors import LocalProtocolError, MessageDecodeError
from rocketpy.message import RecordHead
from rocketpy.wire.properties import CRC_PROPERTY_SIZE, MAX_PROPERTIES_SIZE, encode_crc_property
from rocketpy.wire.sysflag import BORN_HOST_V6, STORE_HOST_V6

__all__ = [
    "BLANK_MAGIC",
    "BLANK_SIZE",
    "BORN_HOST_AT",
    "BORN_TIMESTAMP_AT",
    "MAGIC_AT",
    "MAGIC_V1",
    "MAGIC_V2",
    "MAX_TOPIC_SIZE",
    "MIN_RECORD_SIZE",
    "PHYSICAL_OFFSET_AT",
    "QUEUE_ID_AT",
    "QUEUE_OFFSET_AT",
    "STORE_TIMESTAMP_AT",
    "SYS_FLAG_AT",
    "body_crc",
    "encode_batch_records",
    "encode_blank",
    "encode_record",
    "encode_run_records",
    "fill_crc_property",
    "has_valid_crc_property",
    "head_layout",
    "read_head",
    "record_size",
    "reserve_crc_property",
    "store_timestamp_at",
]

MAGIC_V1: Final = -626843481
MAGIC_V2: Final = -626843477
BLANK_MAGIC: Final = -875286124
"""Marks the filler at the end of a commit log file."""
BLANK_SIZE: Final = 8
"""Bytes of a filler that are written; its length field covers the rest of the file."""
MIN_RECORD_SIZE: Final = 91

# Where to patch a record once its place is known. Later fields move by 12 bytes with an IPv6 born host.
MAGIC_AT: Final = 4
QUEUE_ID_AT: Final = 12
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_TIMESTAMP_AT: Final = 56

MAX_TOPIC_SIZE: Final = 255
_V1_TOPIC_LENGTH: Final = 127
_HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6
_LAYOUTS: Final = {
    0: struct.Struct(">iiiiiqqiq8sq8siqi"),
    BORN_HOST_V6: struct.Struct(">iiiiiqqiq20sq8siqi"),
    STORE_HOST_V6: struct.Struct(">iiiiiqqiq8sq20siqi"),
    _HOSTS_V6: struct.Struct(">iiiiiqqiq20sq20siqi"),
}
_FRONT: Final = struct.Struct(">iiiiiqqiq")
_LONG: Final = struct.Struct(">q")
_BACK: Final = struct.Struct(">iqi")
_FIXED_SIZE: Final = _FRONT.size + _LONG.size + _BACK.size + 2
"""Bytes of everything whose size is fixed, the length of the properties included."""
_FLAG_AND_TIME: Final = struct.Struct(">iq")
_RETRY_AND_PREPARED: Final = struct.Struct(">iq")
_BATCH_HEADS: Final = {size: struct.Struct(f">iiiiiqq{size}si") for size in (48, 60, 72)}
"""The fixed part with everything that is the same for a batch as one piece, by its size: hosts take 8 or 20 bytes."""
_SYS_FLAG: Final = struct.Struct(">i")
_LENGTH_16: Final = struct.Struct(">H")
_TOPIC_PREFIX: Final = [
    (MAGIC_V1, bytes((size,))) if size <= _V1_TOPIC_LENGTH else (MAGIC_V2, _LENGTH_16.pack(size))
    for size in range(MAX_TOPIC_SIZE + 1)
]
"""Magic number and length field by the bytes of the topic."""
_BLANK: Final = struct.Struct(">ii")


def head_layout(sys_flag: int) -> struct.Struct:
    """The layout of the fixed part: hosts take 8 or 20 bytes."""
    return _LAYOUTS[sys_flag & _HOSTS_V6]


def store_timestamp_at(sys_flag: int) -> int:
    """Where the store timestamp stands in a record with this flag word."""
    return STORE_TIMESTAMP_AT + 12 if sys_flag & BORN_HOST_V6 else STORE_TIMESTAMP_AT


def body_crc(data: bytes | memoryview) -> int:
    """CRC-32 without its top bit, as everywhere in RocketMQ."""
    return crc32(data) & 0x7FFFFFFF


def record_size(topic: bytes, body: bytes, properties: bytes, sys_flag: int = 0) -> int:
    """Bytes that `encode_record` will need."""
    topic_length = 1 if len(topic) <= _V1_TOPIC_LENGTH else 2
    return head_layout(sys_flag).size + len(body) + topic_length + len(topic) + 2 + len(properties)


def encode_record(
    *,
    topic: bytes,
    body: bytes,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    body_crc: int | None = None,
) -> bytes:
    """One record, version 2 when the topic is longer than 127 characters.

    Args:
        body_crc: The CRC of the body when it is known already.

    Raises:
        LocalProtocolError: a part does not fit the layout: a topic over 255 bytes, properties over 32,767, a number
            out of its range, a host that is not as long as the flag word says.
    """
    topic_size, body_size, properties_size = len(topic), len(body), len(properties)
    _check_fit(topic_size, properties_size, len(born_host), len(store_host), sys_flag)
    magic, topic_prefix = _TOPIC_PREFIX[topic_size]
    size = _FIXED_SIZE + len(born_host) + len(store_host) + body_size + len(topic_prefix) + topic_size + properties_size
    crc = crc32(body) & 0x7FFFFFFF if body_crc is None else body_crc
    try:
        parts = (
            _FRONT.pack(size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp),
            born_host,
            _LONG.pack(store_timestamp),
            store_host,
            _BACK.pack(reconsume_times, prepared_transaction_offset, body_size),
            body,
            topic_prefix,
            topic,
            _LENGTH_16.pack(properties_size),
            properties,
        )
    except struct.error as exc:
        raise LocalProtocolError(f"a message cannot be stored: {exc}") from exc
    return b"".join(parts)


def encode_batch_records(
    bodies: Sequence[bytes],
    *,
    topic: bytes,
    flags: Sequence[int],
    properties: Sequence[bytes],
    sizes: Sequence[int],
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> list[bytes]:
    """The records of a batch, each at the next offset and behind the one before; as `encode_record` makes them.

    What is the same for all of them is packed once; the rest goes column by column, so that the loops are the
    interpreter's own. `sizes` are those that `record_size` tells.

    Raises:
        LocalProtocolError: a part does not fit the layout, as for `encode_record`.
    """
    text_sizes = list(map(len, properties))
    _check_fit(len(topic), max(text_sizes, default=0), len(born_host), len(store_host), sys_flag)
    magic, topic_prefix = _TOPIC_PREFIX[len(topic)]
    try:
        middle = _FLAG_AND_TIME.pack(sys_flag, born_timestamp) + born_host + _LONG.pack(store_timestamp) + store_host
        middle += _RETRY_AND_PREPARED.pack(reconsume_times, prepared_transaction_offset)
        crcs = [crc32(body) & 0x7FFFFFFF for body in bodies]
        columns = sizes, repeat(magic), crcs, repeat(queue_id), flags, count(queue_offset)
        positions = accumulate(sizes, initial=physical_offset)
        layout, body_sizes = _BATCH_HEADS[len(middle)], list(map(len, bodies))
        if len(set(text_sizes)) == len(set(body_sizes)) == 1:  # then a whole record is packed with one call
            before = topic_prefix + topic + _LENGTH_16.pack(text_sizes[0])
            layout = struct.Struct(f"{layout.format}{body_sizes[0]}s{len(before)}s{text_sizes[0]}s")
            parts = bodies, repeat(before), properties
            return list(map(layout.pack, *columns, positions, repeat(middle), body_sizes, *parts))
        heads = map(layout.pack, *columns, positions, repeat(middle), body_sizes)
        before_each = _before(text_sizes, topic_prefix + topic)
        return list(map(b"".join, zip(heads, bodies, before_each, properties, strict=False)))
    except struct.error as exc:
        raise LocalProtocolError(f"a batch cannot be stored: {exc}") from exc


def encode_run_records(
    bodies: Sequence[bytes],
    *,
    topic: bytes,
    properties: Sequence[bytes],
    queue_ids: Sequence[int],
    queue_offsets: Sequence[int],
    positions: Sequence[int],
    sizes: Sequence[int],
    flag: int,
    sys_flag: int,
    born_timestamps: Sequence[int],
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared: Iterable[int] | None = None,
) -> list[bytes]:
    """The records of messages that a producer sent one by one to the queues of a topic; as `encode_record` makes them.

    `sizes` are those that `record_size` tells. The rest goes column by column, as for a batch.

    Raises:
        LocalProtocolError: a part does not fit the layout, as for `encode_record`.
    """
    text_sizes = list(map(len, properties))
    _check_fit(len(topic), max(text_sizes, default=0), len(born_host), len(store_host), sys_flag)
    magic, topic_prefix = _TOPIC_PREFIX[len(topic)]
    crcs = [crc32(body) & 0x7FFFFFFF for body in bodies]
    front = sizes, repeat(magic), crcs, queue_ids, repeat(flag), queue_offsets, positions
    middle = repeat(sys_flag), born_timestamps, repeat(born_host), repeat(store_timestamp), repeat(store_host)
    half_messages = repeat(0) if prepared is None else prepared
    try:
        heads = map(
            head_layout(sys_flag).pack, *front, *middle, repeat(reconsume_times), half_messages, map(len, bodies)
        )
        before = _before(text_sizes, topic_prefix + topic)
        return list(map(b"".join, zip(heads, bodies, before, properties, strict=False)))
    except struct.error as exc:
        raise LocalProtocolError(f"messages cannot be stored: {exc}") from exc


def _before(sizes: Sequence[int], topic: bytes) -> Iterable[bytes]:
    """What stands before properties of these sizes: the topic, and how long they are."""
    parts = {size: topic + _LENGTH_16.pack(size) for size in set(sizes)}
    return map(parts.__getitem__, sizes)


def _check_fit(topic: int, properties: int, born_host: int, store_host: int, sys_flag: int) -> None:
    """Compare the sizes of the parts with what the layout can carry."""
    if topic > MAX_TOPIC_SIZE:
        raise LocalProtocolError(f"a topic of {topic} bytes cannot be stored, {MAX_TOPIC_SIZE} fit")
    if properties > MAX_PROPERTIES_SIZE:
        raise LocalProtocolError(f"properties of {properties} bytes cannot be stored, {MAX_PROPERTIES_SIZE} fit")
    if born_host != (20 if sys_flag & BORN_HOST_V6 else 8) or store_host != (20 if sys_flag & STORE_HOST_V6 else 8):
        raise LocalProtocolError(f"hosts of {born_host} and {store_host} bytes do not fit the flag word {sys_flag:#x}")


def reserve_crc_property(properties: bytes) -> bytes:
    """Properties that end with room for the CRC of the record, which `fill_crc_property` puts there."""
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties + bytes(CRC_PROPERTY_SIZE)


def fill_crc_property(record: bytes | bytearray) -> bytes:
    """The record with the CRC of everything before it in its last property; nothing may be patched afterwards."""
    return bytes(record[:-CRC_PROPERTY_SIZE]) + encode_crc_property(_crc_before(record))


def _crc_before(record: bytes | bytearray) -> int:
    return crc32(memoryview(record)[:-CRC_PROPERTY_SIZE]) & 0x7FFFFFFF


def has_valid_crc_property(data: bytes, begin: int = 0, end: int | None = None) -> bool | None:
    """Whether the CRC that ends a whole record is right; None when the record carries none.

    Args:
        data: Has the record, of which no copy is made.
        begin: Where it begins.
        end: Where it ends; None for the end of the data.
    """
    end = len(data) if end is None else end
    at = end - CRC_PROPERTY_SIZE
    if at < begin or not (data.startswith(b"__CRC32#\x01", at) and data.endswith(b"\x02", at, end)):
        return None
    return data[at:end] == encode_crc_property(crc32(memoryview(data)[begin:at]) & 0x7FFFFFFF)


def encode_blank(size: int) -> bytes:
    """The filler for the last `size` bytes of a commit log file: only its first eight bytes are written."""
    return _BLANK.pack(size, BLANK_MAGIC)


def read_head(data: bytes, offset: int = 0) -> RecordHead:
    """The fixed part of the record at `offset`; nothing is checked but that the bytes are there.

    Raises:
        MessageDecodeError: the data ends before the head does.
    """
    try:
        sys_flag = _SYS_FLAG.unpack_from(data, offset + SYS_FLAG_AT)[0]
        return RecordHead._make(_LAYOUTS[sys_flag & _HOSTS_V6].unpack_from(data, offset))
    except struct.error as exc:
        raise MessageDecodeError(
            f"{max(0, len(data) - offset)} bytes are too few for a stored message", position=offset
        ) from exc
