"""Filters that Spark hands over: which of them the source carries out, and how they narrow a read. Pure.

Queues and offsets are narrowed exactly, and brokers filter by tags, so those filters need not be looked at again. A
filter by time only narrows the offsets, and Spark filters the rows once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

__all__ = ["Narrowing"]

_ANY_NAMES: Final = ("topic", "broker_name", "queue_id", "tags")
_NUMBER_BOUNDS: Final[Mapping[str, Callable[[int], tuple[int, int]]]] = {
    "EqualTo": lambda value: (value, value + 1),
    "GreaterThan": lambda value: (value + 1, _ENDLESS),
    "GreaterThanOrEqual": lambda value: (value, _ENDLESS),
    "LessThan": lambda value: (0, value),
    "LessThanOrEqual": lambda value: (0, value + 1),
}
_LOWER: Final = ("EqualTo", "GreaterThan", "GreaterThanOrEqual")
_UPPER: Final = ("EqualTo", "LessThan", "LessThanOrEqual")
_ENDLESS: Final = 2**63 - 1


def _clean_tag(tag: object) -> bool:
    """Whether an expression of tags can ask for a tag, and for nothing else."""
    return isinstance(tag, str) and bool(tag) and tag != "*" and "|" not in tag and tag == tag.strip()


@attrs.define
class Narrowing:
    """What filters leave of a read.

    Attributes:
        by_tags: whether tags may be narrowed; not so if the user filters by an expression.
        names: the topics, broker names, queue ids and tags that are left, by column; all of those that are missing.
        first: the first offset that is wanted.
        until: the first offset that is not wanted any more.
        since: the earliest time, in ms since 1970; None for any.
        before: a time after the latest one; None for any.
    """

    by_tags: bool = True
    names: dict[str, frozenset[Any]] = attrs.Factory(dict)
    first: int = 0
    until: int = _ENDLESS
    since: int | None = None
    before: int | None = None

    def take(self, filters: Iterable[Any]) -> list[Any]:
        """Narrow by filters, all of which rows have to pass. Returns those that Spark has to apply itself.

        Args:
            filters: those of `pyspark.sql.datasource`.
        """
        return [each for each in filters if not self._take(each)]

    def _take(self, one: Any) -> bool:
        """Narrow by a filter; whether nothing of it is left to do."""
        column = ".".join(getattr(one, "attribute", ()))
        kind, value = type(one).__name__, getattr(one, "value", None)
        if column in _ANY_NAMES:
            return self._take_names(column, kind, value)
        if column == "offset" and kind in _NUMBER_BOUNDS and isinstance(value, int):
            low, high = _NUMBER_BOUNDS[kind](value)
            self.first, self.until = max(self.first, low), min(self.until, high)
            return True
        if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
            self._take_time(kind, value.timestamp() * 1000)
        return False

    def _take_names(self, column: str, kind: str, value: Any) -> bool:
        wanted = [value] if kind == "EqualTo" else list(value) if kind == "In" else None
        if wanted is None or None in wanted:
            return False
        if column == "tags" and not (self.by_tags and all(map(_clean_tag, wanted))):
            return False
        before = self.names.get(column)
        self.names[column] = frozenset(wanted) if before is None else before & frozenset(wanted)
        return True

    def _take_time(self, kind: str, moment: float) -> None:
        # One millisecond more on both sides: times are stored in milliseconds, and brokers of RocketMQ 4 may name any
        # of several messages that were stored in one.
        if kind in _LOWER:
            low = math.floor(moment) - 1
            self.since = low if self.since is None else max(self.since, low)
        if kind in _UPPER:
            high = math.ceil(moment) + 1
            self.before = high if self.before is None else min(self.before, high)

    def wants(self, topic: str, broker_name: str, queue_id: int) -> bool:
        """Whether anything of a queue is left."""
        facts = {"topic": topic, "broker_name": broker_name, "queue_id": queue_id}
        if self.names.get("tags") == frozenset():
            return False
        return all(value in self.names[name] for name, value in facts.items() if name in self.names)

    @property
    def tags(self) -> str | None:
        """The expression of the tags that are left; None for all."""
        left = self.names.get("tags")
        return " || ".join(sorted(left)) if left else None
