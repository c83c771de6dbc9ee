"""Long tables in pages, as replicas of brokers newer than 5.3.3 ask for them: a stretch of the names in their order.

Whoever asks says which state of the table the earlier pages were of. When that is not the present one, it gets the
first page, sees another version in it, and begins anew. Plays the part of subTopicConfigTable and subGroupTable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.topics import DataVersion

__all__ = ["MOST_ENTRIES", "page"]

T = TypeVar("T")

MOST_ENTRIES = 2000
"""Entries of a page, however many are asked for."""
_LONGEST_VERSION = 1024
"""Characters of a state as JSON: three numbers. What is longer is none of ours, and need not be read to know that."""


def page(
    table: Mapping[str, T], current: DataVersion, *, start: int | None, version: str | None, count: int | None
) -> dict[str, T]:
    """One page of a table.

    Args:
        table: all of it.
        current: its state.
        start: how many entries the earlier pages held.
        version: the state that those were of, as JSON.
        count: how many entries are wanted.
    """
    begin = max(0, start or 0) if _is(version, current) else 0
    size = MOST_ENTRIES if count is None else max(0, min(count, MOST_ENTRIES))
    return {name: table[name] for name in sorted(table)[begin : begin + size]}


def _is(version: str | None, current: DataVersion) -> bool:
    if not version or len(version) > _LONGEST_VERSION:
        return False
    try:
        return DataVersion.decode(version.encode()) == current
    except RemoteProtocolError:
        return False
