"""The layout of a stored message: writing a record, and reading its head. Pull answers consist of such records.

There are two versions, told by the magic number: the second has two bytes for the length of the topic. Plays the part
of MessageExtEncoder and of the layout half of MessageDecoder.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from rocketpy.errors import LocalProtocolError, MessageDecodeError
from rocketpy.message import RecordHead
from rocketpy.wire.properties import CRC_PROPERTY_SIZE, MAX_PROPERTIES_SIZE, encode_crc_property
from rocketpy.wire.sysflag import BORN_HOST_V6, STORE_HOST_V6

__all__ = [
    "BLANK_MAGIC",
    "BLANK_SIZE",
    "BODY_CRC_AT",
    "BORN_HOST_AT",
    "BORN_TIMESTAMP_AT",
    "MAGIC_AT",
    "MAGIC_V1",
    "MAGIC_V2",
    "MIN_RECORD_SIZE",
    "PHYSICAL_OFFSET_AT",
    "QUEUE_ID_AT",
    "QUEUE_OFFSET_AT",
    "STORE_TIMESTAMP_AT",
    "SYS_FLAG_AT",
    "body_crc",
    "encode_blank",
    "encode_record",
    "has_valid_crc_property",
    "head_layout",
    "read_head",
    "record_size",
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
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_TIMESTAMP_AT: Final = 56

_V1_TOPIC_LENGTH: Final = 127
_HOSTS_V6: Final = BORN_HOST_V6 | STORE_HOST_V6
_LAYOUTS: Final = {
    0: struct.Struct(">iiiiiqqiq8sq8siqi"),
    BORN_HOST_V6: struct.Struct(">iiiiiqqiq20sq8siqi"),
    STORE_HOST_V6: struct.Struct(">iiiiiqqiq8sq20siqi"),
    _HOSTS_V6: struct.Struct(">iiiiiqqiq20sq20siqi"),
}
_SYS_FLAG: Final = struct.Struct(">i")
_LENGTH_16: Final = struct.Struct(">H")
_BLANK: Final = struct.Struct(">ii")


def head_layout(sys_flag: int) -> struct.Struct:
    """The layout of the fixed part: hosts take 8 or 20 bytes."""
    return _LAYOUTS[sys_flag & _HOSTS_V6]


def store_timestamp_at(sys_flag: int) -> int:
    """Where the store timestamp stands in a record with this flag word."""
    return STORE_TIMESTAMP_AT + 12 if sys_flag & BORN_HOST_V6 else STORE_TIMESTAMP_AT


def body_crc(data: bytes | memoryview) -> int:
    """CRC-32 without its top bit, as everywhere in RocketMQ."""
    return zlib.crc32(data) & 0x7FFFFFFF


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
    crc_property: bool = False,
) -> bytes:
    """One record, version 2 when the topic is longer than 127 characters.

    Args:
        body_crc: The CRC of the body when it is known already.
        crc_property: Whether to end the properties with the CRC of everything before it; then nothing may be patched
            afterwards.

    Raises:
        LocalProtocolError: a part does not fit the layout: a topic over 255 bytes, properties over 32,767, a number
            out of its range, a host that is not as long as the flag word says.
    """
    if crc_property:
        properties = _with_room_for_crc(properties)
    topic_size = len(topic)
    layout = _LAYOUTS[sys_flag & _HOSTS_V6]
    if (
        topic_size > 255
        or len(properties) > MAX_PROPERTIES_SIZE
        or len(born_host) + len(store_host) != layout.size - 72
    ):
        raise LocalProtocolError(_misfit(topic, properties, born_host, store_host, sys_flag))
    short = topic_size <= _V1_TOPIC_LENGTH
    head = layout.size + len(body)
    try:
        record = b"".join(
            (
                layout.pack(
                    head + topic_size + len(properties) + (3 if short else 4),
                    MAGIC_V1 if short else MAGIC_V2,
                    zlib.crc32(body) & 0x7FFFFFFF if body_crc is None else body_crc,
                    queue_id,
                    flag,
                    queue_offset,
                    physical_offset,
                    sys_flag,
                    born_timestamp,
                    born_host,
                    store_timestamp,
                    store_host,
                    reconsume_times,
                    prepared_transaction_offset,
                    len(body),
                ),
                body,
                _SHORT[topic_size] if short else _LENGTH_16.pack(topic_size),
                topic,
                _LENGTH_16.pack(len(properties)),
                properties,
            )
        )
    except struct.error as exc:
        raise LocalProtocolError(f"a message cannot be stored: {exc}") from exc
    return record[:-CRC_PROPERTY_SIZE] + encode_crc_property(_crc_before(record)) if crc_property else record


_SHORT: Final = [bytes((length,)) for length in range(_V1_TOPIC_LENGTH + 1)]


def _misfit(topic: bytes, properties: bytes, born_host: bytes, store_host: bytes, sys_flag: int) -> str:
    if len(topic) > 255:
        return f"a topic of {len(topic)} bytes cannot be stored, 255 fit"
    if len(properties) > MAX_PROPERTIES_SIZE:
        return f"properties of {len(properties)} bytes cannot be stored, {MAX_PROPERTIES_SIZE} fit"
    return f"hosts of {len(born_host)} and {len(store_host)} bytes do not fit the flag word {sys_flag:#x}"


def _with_room_for_crc(properties: bytes) -> bytes:
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties + bytes(CRC_PROPERTY_SIZE)


def _crc_before(record: bytes) -> int:
    return zlib.crc32(memoryview(record)[:-CRC_PROPERTY_SIZE]) & 0x7FFFFFFF


def has_valid_crc_property(record: bytes) -> bool | None:
    """Whether the CRC that ends a whole record is right; None when the record carries none."""
    ending = record[-CRC_PROPERTY_SIZE:]
    if not (ending.startswith(b"__CRC32#\x01") and ending.endswith(b"\x02")):
        return None
    return ending == encode_crc_property(_crc_before(record))


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
