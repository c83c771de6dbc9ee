"""Rows as pyspark makes them, and values such as their columns hold, without pyspark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Self

from hypothesis import strategies as st

__all__ = ["Row", "json_values", "msgpack_values"]


class Row(tuple[Any, ...]):
    """Has the shape of pyspark.sql.Row: a tuple that knows its fields."""

    def __new__(cls, **columns: Any) -> Self:
        return cls.of(list(columns), list(columns.values()))

    @classmethod
    def of(cls, fields: Sequence[str], values: Sequence[Any]) -> Self:
        row = tuple.__new__(cls, values)
        row.__fields__ = list(fields)
        return row

    def asDict(self) -> dict[str, Any]:
        return dict(zip(self.__fields__, self, strict=True))


_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_singles = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | _texts


def _nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4), max_leaves=20
    )


def _is_one_moment(time: datetime) -> bool:
    """Whether it is equal to the same moment in UTC: what a change of the clocks skips or repeats never is."""
    return time.astimezone(UTC) == time


_times = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones())  # noqa: DTZ001 - it is given one
json_values = _nested(_singles | st.integers())
msgpack_values = _nested(
    _singles | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20) | _times.filter(_is_one_moment)
)
