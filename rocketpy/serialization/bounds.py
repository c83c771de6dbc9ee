"""Bounds on values built from untrusted bytes: how deep they are nested, and how many members they have.

One byte of input can take sixty bytes of memory (an empty list is one byte in msgpack), and deep nesting breaks code
that walks the value later. So both are checked before a value is returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rocketpy.errors import SerializationError

__all__ = ["MAX_MEMBERS", "check_depth", "too_deep", "too_many"]

MAX_MEMBERS = 1_000_000
"""Members of one value, counted over all of its lists and objects."""


def check_depth(value: object, limit: int) -> None:
    """Refuse a value whose lists and objects are nested deeper than `limit`.

    Raises:
        SerializationError: the value is nested deeper.
    """
    holders = [value] if type(value) in _HOLDERS else []
    depth = 0
    while holders:
        depth += 1
        if depth > limit:
            raise too_deep(limit)
        holders = [item for holder in holders for item in _members(holder) if type(item) in _HOLDERS]


def too_deep(limit: int) -> SerializationError:
    """The error of a body that is nested too deep."""
    return SerializationError(f"the value in the body is nested deeper than {limit} levels")


def too_many(limit: int) -> SerializationError:
    """The error of a body with too many members."""
    return SerializationError(f"the value in the body has more than {limit} members")


_HOLDERS = frozenset({dict, list})


def _members(holder: Any) -> Iterable[Any]:
    members: Iterable[Any] = holder.values() if type(holder) is dict else holder
    return members
