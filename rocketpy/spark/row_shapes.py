"""What a row looks like: the names of its columns and its values in their order, whatever kind of object it is.

Rows of Spark are told by their shape, so that nothing here needs pyspark: a tuple with `__fields__`. Named tuples,
dicts and plain tuples, as RDDs hold them, are rows too. The columns of a plain tuple are its positions, and a dict may
leave out columns that are null. Anything else is one value without columns. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["NOTHING", "Columns", "OpenColumns", "named_values", "whole_row"]

Columns = Sequence[str | int] | None
"""Names of columns, positions where they have no names, None where there is but one value."""


class OpenColumns(tuple[str, ...]):
    """The columns that one dict has; another may have others."""

    __slots__ = ()


NOTHING: Final[tuple[Any, ...]] = ()
"""Added to a row it gives the quickest exact tuple: rows of Spark are indexed by code in Python."""


def named_values(row: Any) -> tuple[Columns, tuple[Any, ...]]:
    """The columns of a row, and its values."""
    if isinstance(row, tuple):
        values = NOTHING + row
        fields = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
        return fields or range(len(values)), values
    if isinstance(row, Mapping):
        return OpenColumns(row), tuple(row.values())
    return None, (row,)


def whole_row(columns: Columns, values: tuple[Any, ...]) -> Any:
    """The row as one value: an object of its columns, a list where they have no names, or the one value."""
    if columns is None:
        return values[0]
    if isinstance(columns, range):
        return list(values)
    return dict(zip(columns, values))  # noqa: B905 - to say `strict` takes half as long as the rest
