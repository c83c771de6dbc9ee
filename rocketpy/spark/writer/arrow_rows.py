"""Turns record batches of Spark into plain tuples, a column at a time, with the values that rows of PySpark have.

Timestamps become datetimes in the time zone of the process, without saying so, as PySpark gives them; maps and structs
become dicts. Spark has values that Python has not, such as dates after the year 9999 and text that is not UTF-8: in
place of each stands an `Unreadable`, so that only its row is a bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rocketpy.moments import SECONDS_BELOW
from rocketpy.spark.row_shapes import Unreadable

if TYPE_CHECKING:
    from rocketpy.spark.writer.schema import Selection

__all__ = ["rows_of", "values_of"]

_MICROSECONDS: Final = 1_000_000


def rows_of(batch: pa.RecordBatch, selection: Selection) -> Iterator[tuple[Any, ...]]:
    """The rows of a batch, with the selected columns."""
    columns = [
        _milliseconds(batch.column(place)) if name in selection.moments else _readable(batch.column(place))
        for name, place in zip(selection.columns, selection.places, strict=True)
    ]
    return zip(*columns, strict=True)


def _readable(array: pa.Array) -> list[Any]:
    """The values of an array, with an `Unreadable` for each that Python cannot have."""
    try:
        return values_of(array)
    except (ValueError, OverflowError):
        return [_readable_one(array.slice(at, 1)) for at in range(len(array))]


def _readable_one(array: pa.Array) -> Any:
    try:
        return values_of(array)[0]
    except UnicodeDecodeError:
        return Unreadable("holds text that is not valid UTF-8: cast it to binary, or mend it where it is made")
    except (ValueError, OverflowError):
        return Unreadable("holds a date or time outside of the years 1 to 9999: cast it to a string")


def values_of(array: pa.Array) -> list[Any]:
    """The values of an array."""
    kind = array.type
    if not _is_special(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(kind):
        return _local_times(array)
    if pa.types.is_map(kind):
        return _dicts(array)
    return _structs(array) if pa.types.is_struct(kind) else _lists(array)


@lru_cache(maxsize=1024)
def _is_special(kind: pa.DataType) -> bool:
    """Whether Arrow's own conversion gives other values than PySpark, or takes long."""
    if pa.types.is_timestamp(kind):
        return kind.tz is not None
    return pa.types.is_map(kind) or any(_is_special(kind.field(place).type) for place in range(kind.num_fields))


def _times(array: pa.Array) -> list[int | None]:
    """Microseconds since 1970."""
    return array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _local_times(array: pa.Array) -> list[datetime | None]:
    local = datetime.fromtimestamp
    return [
        None
        if time is None
        else local(time // _MICROSECONDS)
        if not time % _MICROSECONDS
        else local(time // _MICROSECONDS).replace(microsecond=time % _MICROSECONDS)
        for time in _times(array)
    ]


def _milliseconds(array: pa.Array) -> list[int | datetime | None]:
    return [None if time is None else _moment((time + 500) // 1000) for time in _times(array)]


def _moment(milliseconds: int) -> int | datetime:
    """A moment as a number, unless that would look like one of seconds."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if 0 < milliseconds < SECONDS_BELOW else milliseconds


def _dicts(array: pa.Array) -> list[Any]:
    if not _is_special(array.type.key_type) and not _is_special(array.type.item_type):
        return [None if pairs is None else dict(pairs) for pairs in array.to_pylist()]
    ends = array.offsets.to_pylist()
    start, size = ends[0], ends[-1] - ends[0]
    keys, items = values_of(array.keys.slice(start, size)), values_of(array.items.slice(start, size))
    pairs = list(zip(keys, items, strict=True))
    found = [dict(pairs[begin - start : end - start]) for begin, end in pairwise(ends)]
    return found if not array.null_count else _with_nulls(found, array)


def _lists(array: pa.Array) -> list[Any]:
    ends = array.offsets.to_pylist()
    start = ends[0]
    flat = values_of(array.values.slice(start, ends[-1] - start))
    found = [flat[begin - start : end - start] for begin, end in pairwise(ends)]
    return found if not array.null_count else _with_nulls(found, array)


def _structs(array: pa.Array) -> list[Any]:
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    columns = [values_of(array.field(place)) for place in range(len(names))]
    found = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found if not array.null_count else _with_nulls(found, array)


def _with_nulls(found: list[Any], array: pa.Array) -> list[Any]:
    return [value if there else None for value, there in zip(found, array.is_valid().to_pylist(), strict=True)]
