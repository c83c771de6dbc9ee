"""Reads the column that identifies a row, for the setting `dedupe_key`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rocketpy.serialization.plain import scalar_text
from rocketpy.spark.row_shapes import Columns, OpenColumns, Unreadable, named_values
from rocketpy.spark.rows import BadRow

__all__ = ["key_reader"]


def key_reader(column: str | int, columns: Sequence[str] | None = None) -> Callable[[Any], str]:
    """Return a function that reads the key of a row. It remembers the columns of the previous row.

    The function raises BadRow if the row has no key.

    Args:
        column: the column with the key.
        columns: the columns, if the rows are plain tuples with a value for each of them.
    """
    given = columns
    known: object = key_reader  # unlike any columns
    place = 0

    def key_of(row: Any) -> str:
        nonlocal known, place
        columns, values = (given, row) if given is not None else named_values(row)
        if columns != known:
            place = _place(column, columns)
            known = columns
        value = values[place] if place < len(values) else None
        text = value if type(value) is str else None if value is None else scalar_text(value)
        if text:
            return text
        if value is None or text == "":
            raise BadRow(f"the dedupe key, column {column!r}, is {'null' if value is None else 'empty'}")
        if type(value) is Unreadable:
            raise BadRow(f"the dedupe key, column {column!r}, {value.reason}")
        kind = type(value).__name__
        raise BadRow(f"the dedupe key, column {column!r}, is of the type {kind}: cast it to a string", skippable=False)

    return key_of


def _place(column: str | int, columns: Columns) -> int:
    """The position of the column; beyond the last one if a dict omits it."""
    if columns is not None and column in columns:
        return columns.index(column)
    if isinstance(columns, OpenColumns):
        return len(columns)
    there = "none" if columns is None else ", ".join(map(repr, columns)) or "none"
    raise BadRow(f"there is no column {column!r} for the dedupe key; the columns are {there}", skippable=False)
