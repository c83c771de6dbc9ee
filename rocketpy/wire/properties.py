"""The text that carries message properties: ``name \\x01 value \\x02`` again and again.

It stands in send requests as text and in stored messages as UTF-8. Readers never fail: what is no pair is left out,
as in Java. Plays the part of the properties half of MessageDecoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rocketpy.errors import LocalProtocolError

__all__ = [
    "CRC_PROPERTY_SIZE",
    "MAX_PROPERTIES_SIZE",
    "decode_properties",
    "delete_property",
    "encode_crc_property",
    "encode_properties",
    "find_property",
    "plain_pairs",
]

MAX_PROPERTIES_SIZE = 32767
"""Bytes that a stored message can carry: their number is a signed int16."""
CRC_PROPERTY_SIZE = 20
"""Bytes of the property that holds the CRC of a whole record, which is always the last one."""

_FEW = 4
_NAME_END = "\x01"
_PAIR_END = "\x02"


def encode_properties(
    properties: Mapping[str, str] | Mapping[str, str | None], *, refuse_separators: bool = False
) -> str:
    """The text of a property map.

    Args:
        properties: Names and values; a value that is None is left out.
        refuse_separators: For the sender: a separator inside a name or a value would change the meaning.

    Raises:
        LocalProtocolError: `refuse_separators` found one.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items() if value is not None])
    if refuse_separators and not text.count(_NAME_END) == text.count(_PAIR_END) <= len(properties):
        raise LocalProtocolError("a property name or value contains \\x01 or \\x02, which separate properties")
    return text


def decode_properties(text: str) -> dict[str, str]:
    """The map of a property text; the last of equal names wins, pairs without name or value are left out."""
    found: dict[str, str] = {}
    for pair in text.split(_PAIR_END):
        name, _, value = pair.partition(_NAME_END)
        if value and name:
            found[name] = value
    return found


def plain_pairs(data: bytes) -> dict[bytes, bytes] | None:
    """The pairs of encoded properties; None unless they are what `encode_properties` makes of them, and ASCII."""
    pairs: Any = [pair.split(b"\x01") for pair in data[:-1].split(b"\x02")]
    try:
        found: dict[bytes, bytes] = dict(pairs)
    except ValueError:  # there are more or fewer parts than two
        return None
    if len(found) < len(pairs) or b"" in found or b"" in found.values():
        return None
    return found if data[-1:] == b"\x02" and data.isascii() else None


def find_property(data: bytes, name: bytes) -> bytes | None:
    """One value out of encoded properties, without taking the others apart; None when it is not there."""
    head = b"\x02%b\x01" % name
    limit = len(data)
    # From the end, for the last of equal names wins; an empty value does not count, so the search goes on before it.
    for _ in range(_FEW):
        at = data.rfind(head, 0, limit)
        if at < 0:
            return (_value_at(data, len(head) - 1) or None) if data.startswith(head[1:]) else None
        value = _value_at(data, at + len(head))
        if value:
            return value
        limit = at
    # There may be thousands of empty values, and a step in Python for each would take milliseconds.
    found = _last_of(name).match(data, 0, limit)
    return None if found is None else found[1]


@lru_cache(maxsize=64)
def _last_of(name: bytes) -> re.Pattern[bytes]:
    """A pattern for encoded properties that captures the last non-empty value of a name."""
    return re.compile(rb"(?:.*\x02)?%b\x01([^\x02]+)" % re.escape(name), re.DOTALL)


def _value_at(data: bytes, start: int) -> bytes:
    end = data.find(b"\x02", start)
    return data[start:] if end < 0 else data[start:end]


def delete_property(text: str, name: str) -> str:
    """The text without the pairs of that name; everything else stays as it was written."""
    head = name + _NAME_END
    if head not in text:
        return text
    pieces = text.split(_PAIR_END)
    last = pieces.pop()
    kept = [piece + _PAIR_END for piece in pieces if not piece.startswith(head)]
    if last and not last.startswith(head):
        kept.append(last)
    return "".join(kept)


def encode_crc_property(crc: int) -> bytes:
    """The property that ends a record with its own CRC: ten digits, the lowest first; a negative one counts as 0."""
    return b"__CRC32#\x01%b\x02" % (b"%010d" % max(crc, 0))[::-1]
