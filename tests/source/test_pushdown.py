"""Filters of Spark: what they leave of a read, and which of them Spark still has to apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from rocketpy.spark.source.pushdown import Narrowing


@dataclass(frozen=True)
class _Filter:
    attribute: tuple[str, ...]
    value: Any = None


class EqualTo(_Filter):
    """As in PySpark, which is told by its name."""


class In(_Filter):
    """As in PySpark."""


class GreaterThan(_Filter):
    """As in PySpark."""


class GreaterThanOrEqual(_Filter):
    """As in PySpark."""


class LessThan(_Filter):
    """As in PySpark."""


class IsNotNull(_Filter):
    """As in PySpark."""


class Not:
    """As in PySpark; it has no attribute."""


NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
NOON_MS = 1795867200000


def test_offsets_are_narrowed_exactly():
    narrowing = Narrowing()
    assert narrowing.take([GreaterThan(("offset",), 4), LessThan(("offset",), 9)]) == []
    assert (narrowing.first, narrowing.until) == (5, 9)
    narrowing.take([EqualTo(("offset",), 7)])
    assert (narrowing.first, narrowing.until) == (7, 8)


def test_queues_are_chosen():
    narrowing = Narrowing()
    assert narrowing.take([EqualTo(("topic",), "T"), In(("queue_id",), [0, 1]), In(("queue_id",), [1, 2])]) == []
    assert narrowing.wants("T", "broker-a", 1)
    assert not narrowing.wants("T", "broker-a", 0)
    assert not narrowing.wants("U", "broker-a", 1)


def test_times_are_narrowed_and_left_to_spark_too():
    narrowing = Narrowing()
    filters = [GreaterThanOrEqual(("timestamp",), NOON), LessThan(("timestamp",), NOON)]
    assert narrowing.take(filters) == filters
    assert (narrowing.since, narrowing.before) == (NOON_MS - 1, NOON_MS + 1)


def test_tags_become_an_expression():
    narrowing = Narrowing()
    assert narrowing.take([In(("tags",), ["b", "a"])]) == []
    assert narrowing.tags == "a || b"
    assert narrowing.take([EqualTo(("tags",), "c")]) == []
    assert narrowing.tags is None
    assert not narrowing.wants("T", "broker-a", 0)


@pytest.mark.parametrize("tag", ["", "*", " a", "a||b", "a|b", None])
def test_tags_that_no_expression_can_ask_for_are_left_to_spark(tag):
    narrowing, one = Narrowing(), In(("tags",), ["a", tag])
    assert narrowing.take([one]) == [one]
    assert narrowing.tags is None


def test_what_is_not_understood_is_left_to_spark():
    left = [
        IsNotNull(("tags",)),
        Not(),
        EqualTo(("value",), b"x"),
        EqualTo(("properties", "color"), "blue"),
        EqualTo(("offset",), "7"),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 - one without a zone is meant
    ]
    narrowing = Narrowing()
    assert narrowing.take(left) == left
    assert narrowing == Narrowing()


def test_a_filter_of_the_user_is_not_replaced():
    one = EqualTo(("tags",), "a")
    assert Narrowing(by_tags=False).take([one]) == [one]
