"""Stored messages taken apart by hand, everything of them: what is left for a consumer that does nothing."""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")
_TEXT = "utf-8"

Record = tuple[str, bytes, dict[str, str], int, int, int]
"""Topic, body, properties, queue id, queue offset, time of storing."""


def decode(data: bytes) -> list[Record]:
    """Every message in the body of a pull's answer."""
    records: list[Record] = []
    at, end = 0, len(data)
    while at < end:
        head = _HEAD.unpack_from(data, at)
        body_at = at + _HEAD.size
        topic_at = body_at + head[14] + 1
        properties_at = topic_at + data[topic_at - 1] + 2
        following = at + head[0]
        text = str(data[properties_at:following], _TEXT)
        pairs = [pair.split("\x01") for pair in text.split("\x02") if pair]
        topic = str(data[topic_at : properties_at - 2], _TEXT)
        records.append((topic, data[body_at : topic_at - 1], dict(pairs), head[3], head[5], head[10]))
        at = following
    return records
