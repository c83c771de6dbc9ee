"""The properties of a record out of the log, without the rest of it: filters ask for them, message by message.

Of a large record the body is not read. Plays the part of MessageDecoder.decodeProperties.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocketpy.wire.properties import MAX_PROPERTIES_SIZE
from rocketpy.wire.record import MAGIC_AT, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE, SYS_FLAG_AT, head_layout
from rocketpy.wire.sysflag import BORN_HOST_V6, STORE_HOST_V6

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.log.commit_log import CommitLog

__all__ = ["read_properties"]

WHOLE = 4096
"""Bytes of a record that is read as a whole: another call would cost more than to copy the body."""
_MOST_BEHIND_BODY = 2 + 0xFFFF + 2 + MAX_PROPERTIES_SIZE
_INT32 = struct.Struct(">i")
_LENGTH_16 = struct.Struct(">H")
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_HEAD_SIZE = head_layout(0).size


def read_properties(log: CommitLog, position: int, size: int) -> bytes | None:
    """The properties of a record as they are stored; None when it is not there, or damaged."""
    if size < MIN_RECORD_SIZE:
        return None
    head = log.read(position, min(size, WHOLE))
    if head is None:
        return None
    (flags,) = _INT32.unpack_from(head, SYS_FLAG_AT)
    body_at = head_layout(flags).size if flags & _HOSTS_V6 else _HEAD_SIZE
    if body_at > len(head):
        return None
    behind = body_at + _INT32.unpack_from(head, body_at - _INT32.size)[0]
    if not body_at <= behind < size or size - behind > _MOST_BEHIND_BODY:
        return None
    if size <= WHOLE:
        return _behind_body(head, behind, head)
    tail = log.read(position + behind, size - behind)
    return None if tail is None else _behind_body(tail, 0, head)


def _behind_body(data: bytes, at: int, head: bytes) -> bytes | None:
    """The properties, which end the record, behind the topic."""
    (magic,) = _INT32.unpack_from(head, MAGIC_AT)
    topic_at = at + (1 if magic == MAGIC_V1 else 2)
    if topic_at > len(data) or magic not in (MAGIC_V1, MAGIC_V2):
        return None
    # A topic of version 1 has one length byte, of version 2 two, the first of which is zero for up to 255 bytes.
    properties_at = topic_at + data[topic_at - 1] + _LENGTH_16.size
    if properties_at > len(data):
        return None
    (length,) = _LENGTH_16.unpack_from(data, properties_at - _LENGTH_16.size)
    return data[properties_at:] if properties_at + length == len(data) else None
