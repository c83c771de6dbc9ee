"""Turns nested values, such as rows of a DataFrame, into what the encoders of json and msgpack accept.

Rows of pyspark (recognized without importing it), named tuples, dataclasses and instances of attrs classes become
objects keyed by field name; tuples become lists; UUIDs and keys become text. Other types are converted by the table of
leaves of each format. Depth is bounded, which also stops values that contain themselves. Error messages name the place
inside the value and the type found there, never the value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Integral, Rational, Real
from typing import Any
from uuid import UUID

import attrs

from rocketpy.errors import SerializationError
from rocketpy.logs import quote

__all__ = ["MAX_DEPTH", "Leaves", "decimal_text", "duration_text", "plain", "scalar_text"]

MAX_DEPTH = 64
"""How deep lists and objects may be nested; rows of Spark stay far below."""


@attrs.frozen
class Leaves:
    """How a format writes values that are neither lists nor objects.

    Attributes:
        same: Exact types that the encoder accepts unchanged.
        others: Functions that convert values of other types, by exact type.
    """

    same: frozenset[type]
    others: Mapping[type, Callable[[Any], Any]]


_LONGEST_DECIMAL = 80
"""The most digits before the point, or zeros right after it; twice as many as Spark's decimals have."""
_MICROSECOND = timedelta(microseconds=1)


class _UnfitError(Exception):
    """A value inside that cannot be written. Each container that the error passes adds a step to the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[object] = []


def plain(value: object, leaves: Leaves, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value as dicts with text keys, lists, and what `leaves` makes of everything else.

    Raises:
        SerializationError: something inside has a type that cannot be written, an object has the same key twice, or
            the value is nested too deep.
    """
    try:
        return _plain(value, leaves, max_depth)
    except _UnfitError as exc:
        raise SerializationError(f"{_place(exc.path)} {exc.reason}") from None


def scalar_text(value: object) -> str | None:
    """Return a single value as text, the same in keys, in json and in the format "string"; None if it has no text.

    Numbers are written as Python writes them, booleans as `true` and `false`, dates and times in ISO 8601.

    Raises:
        SerializationError: the value is a whole number with more digits than Python writes.
    """
    write = _TEXTS.get(type(value))
    if write is not None:
        return write(value)
    single = _base_value(value)
    return None if single is None else _TEXTS[type(single)](single)


def duration_text(value: timedelta) -> str:
    """Return a duration in ISO 8601, in seconds, exact to the microsecond: `PT93784.5S`."""
    whole, rest = divmod(abs(value) // _MICROSECOND, 1_000_000)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return f"{'-' if value < timedelta() else ''}PT{whole}{fraction}S"


def decimal_text(value: Decimal) -> str:
    """Return a Decimal digit by digit, such as `0.000` rather than `0E-3`, unless that is long."""
    return format(value, "f") if -_LONGEST_DECIMAL <= value.adjusted() <= _LONGEST_DECIMAL else str(value)


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError as exc:  # Python refuses thousands of digits, because they take long
        raise SerializationError(f"a whole number inside the value cannot be written: {exc}") from None


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    str: str,
    int: _digits,
    float: repr,
    bool: lambda value: "true" if value else "false",
    Decimal: decimal_text,
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: duration_text,
    UUID: str,
}


def _plain(value: Any, leaves: Leaves, room: int) -> Any:
    kind = type(value)
    if kind in leaves.same:
        return value
    leaf = leaves.others.get(kind)
    if leaf is not None:
        return leaf(value)
    if room == 0:
        raise _UnfitError("is nested too deep, or contains itself")
    if isinstance(value, Mapping):
        return _object(value.items(), len(value), leaves, room - 1)
    if isinstance(value, list | tuple):
        fields = _field_names(value)
        if fields is None:
            return _array(value, leaves, room - 1)
        return _object(zip(fields, value, strict=False), len(value), leaves, room - 1)
    if callable(getattr(value, "asDict", None)):
        return _plain(value.asDict(), leaves, room - 1)
    names = _attribute_names(kind)
    if names is not None:
        return _object([(name, getattr(value, name)) for name in names], len(names), leaves, room - 1)
    return _subclass(value, leaves)


def _field_names(value: list[Any] | tuple[Any, ...]) -> Iterable[str] | None:
    """Return the field names of a pyspark row or a named tuple; None for other sequences."""
    fields: Iterable[str] | None = getattr(value, "__fields__", None)
    return fields if fields is not None else getattr(value, "_fields", None)


def _attribute_names(kind: type) -> Sequence[str] | None:
    """Return the field names of an attrs class or a dataclass; None for other classes."""
    made_by_attrs = getattr(kind, "__attrs_attrs__", None)
    if made_by_attrs is not None:
        return [field.name for field in made_by_attrs]
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None


def _array(values: Iterable[Any], leaves: Leaves, room: int) -> list[Any]:
    result: list[Any] = []
    for item in values:
        try:
            result.append(_plain(item, leaves, room))
        except _UnfitError as exc:
            exc.path.append(len(result))
            raise
    return result


def _object(pairs: Iterable[tuple[Any, Any]], count: int, leaves: Leaves, room: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    same = leaves.same
    for key, item in pairs:
        name = key if type(key) is str else _key(key)
        if type(item) in same:
            result[name] = item
            continue
        try:
            result[name] = _plain(item, leaves, room)
        except _UnfitError as exc:
            exc.path.append(name)
            raise
    if len(result) != count:
        raise _UnfitError(f"has {count} members under {len(result)} different names; rename those that are alike")
    return result


def _key(key: object) -> str:
    text = scalar_text(key)
    if text is None:
        raise _UnfitError(f"has a key of type {type(key).__name__}; keys are text, numbers or dates")
    return text


def _subclass(value: object, leaves: Leaves) -> Any:
    """Convert a value whose type derives from a known one, such as an IntEnum or a numpy number."""
    single = _base_value(value)
    if single is None:
        known = (
            "None, bool, numbers, text, bytes, dates, durations, UUIDs, and lists, dicts, rows and dataclasses of them"
        )
        raise _UnfitError(f"has the type {type(value).__name__}, which cannot be written; known are {known}")
    return _plain(single, leaves, 0)


def _base_value(value: object) -> Any:
    """Return the value as one of the types in the tables, or None."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Rational):
        return float(value)
    if isinstance(value, datetime):  # such as pandas.Timestamp
        return _moment(value)
    return None


def _moment(value: datetime) -> datetime | None:
    try:
        return datetime.combine(value.date(), value.timetz())
    except ValueError:  # pandas.NaT, a datetime that has no date
        return None


def _place(path: list[object]) -> str:
    if not path:
        return "the value"
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(path))
    where = quote("".join(steps).removeprefix("."))
    return f"the value at '{where}'"
