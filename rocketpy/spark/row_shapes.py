"""The shape of a row: the names of its columns, and its values in the same order, for all kinds of row objects.

A row of Spark is recognized as a tuple with `__fields__`, so this module does not need pyspark. Named tuples, dicts and
plain tuples, which RDDs may contain, are rows too. The columns of a plain tuple are its positions, and a dict may omit
columns that are null. Any other object is a single value without columns. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["NOTHING", "Columns", "OpenColumns", "Unreadable", "named_values", "whole_row"]

Columns = Sequence[str | int] | None
"""The names of the columns, or their positions if they have no names; None for a single value."""


class OpenColumns(tuple[str, ...]):
    """The columns of one dict. Another dict may have other columns."""

    __slots__ = ()


class Unreadable:
    """Stands in a row for a value that Python cannot have. No part of a message can be made of it.

    Attributes:
        reason: What is wrong with it, after the name of its column.
    """

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


NOTHING: Final[tuple[Any, ...]] = ()
"""Adding a row to it is the fastest way to an exact tuple. Spark's own Row class has a slow `__getitem__` in Python."""


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
    """The row as one value: a dict by column, a list if the columns have no names, or the single value."""
    if columns is None:
        return values[0]
    if isinstance(columns, range):
        return list(values)
    return dict(zip(columns, values))  # noqa: B905 - to say `strict` takes half as long as the rest
