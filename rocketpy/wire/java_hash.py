"""Java's String.hashCode, which decides what every language must agree on: tag filters, queues of sharding keys.

It runs over UTF-16 code units and wraps at 32 bits with sign.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["string_hash", "tags_code"]

_CACHED_LENGTH = 256


def string_hash(text: str) -> int:
    """The hash of Java's String, an int32."""
    return _cached_hash(text) if len(text) <= _CACHED_LENGTH else _hash(text)


def tags_code(tags: str | None) -> int:
    """What a consume queue keeps of a tag: its hash, sign-extended to 64 bits; 0 for none."""
    return string_hash(tags) if tags else 0


def _hash(text: str) -> int:
    units: Iterable[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        words = array("H", text.encode("utf-16-be", "surrogatepass"))
        if sys.byteorder == "little":
            words.byteswap()
        units = words
    value = 0
    for unit in units:
        value = value * 31 + unit & 0xFFFFFFFF
    return (value ^ 0x80000000) - 0x80000000


# Tags, topics and keys repeat. Long texts are left out, so that the cache stays small.
_cached_hash = lru_cache(maxsize=4096)(_hash)
