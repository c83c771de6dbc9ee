"""Turns many rows into bodies and encoded properties at once, column by column, in loops of the interpreter's own.

Only rows for which nothing has to be decided one by one: they have the same columns, values that become bodies as they
are, and tags and keys that are printable text or null. The result is what `RowMapping.to_encoded` makes of
each row. Everything else, and every error, is left to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias

from rocketpy.errors import ConfigError
from rocketpy.serialization import BinarySerializer, StringSerializer, serializer
from rocketpy.spark.columns import PUTS, TEXTS, VALUE
from rocketpy.spark.rows import WAIT_TEXT, RowMapping

__all__ = ["FEW", "EncodeChunk", "chunk_encoder"]

FEW: Final = 16
"""So many rows and fewer are encoded one by one."""

EncodeChunk: TypeAlias = Callable[[Sequence[Any]], "tuple[Sequence[bytes], Sequence[str]] | None"]
"""Returns the bodies and the encoded properties of rows; None if they have to be encoded one by one."""

_fields: Final = attrgetter("__fields__")
_BYTES: Final[set[type]] = {bytes}
_TEXT: Final[set[type]] = {str}
_NULL: Final[set[type]] = {type(None)}
_TEXT_OR_NULL: Final = _TEXT | _NULL
_CHUNKED: Final = frozenset({VALUE, *TEXTS})


def chunk_encoder(mapping: RowMapping, columns: Sequence[str] | None) -> EncodeChunk | None:
    """The function for the rows of one partition, which remembers their columns; None if no rows can be encoded so.

    Args:
        mapping: how rows become messages.
        columns: the columns, if the rows are plain tuples; None if they are rows of Spark, which know them.
    """
    if mapping.function is not None or _type_of_values(mapping) is None:
        return None
    return _Encoder(mapping, columns).encode


class _Encoder:
    def __init__(self, mapping: RowMapping, columns: Sequence[str] | None) -> None:
        self._mapping = mapping
        self._value_type = _type_of_values(mapping)
        self._given = columns is not None
        self._columns: Sequence[str] | None = None
        self._places: dict[str, int] | None = None
        if columns is not None:
            self._look_up(columns)

    def encode(self, rows: Sequence[Any]) -> tuple[Sequence[bytes], Sequence[str]] | None:
        """Encode rows, if they are as usual."""
        if not self._given and not self._has_columns_of(rows):
            return None
        places = self._places
        if places is None:
            return None
        try:
            values = list(zip(*rows, strict=True))
        except (TypeError, ValueError):  # no tuples, or of different lengths
            return None
        if self._columns is None or len(values) != len(self._columns):
            return None
        bodies = self._bodies(values[places[VALUE]])
        if bodies is None:
            return None
        texts = _texts([(TEXTS[field], values[places[field]]) for field in PUTS if field in places], len(bodies))
        return None if texts is None else (bodies, texts)

    def _has_columns_of(self, rows: Sequence[Any]) -> bool:
        """Whether all rows have the same columns, which are looked up if they are new."""
        try:
            found = list(map(_fields, rows))
        except AttributeError:
            return False
        first = found[0]
        if found.count(first) < len(found):
            return False
        if first is not self._columns and first != self._columns:
            self._look_up(first)
        return True

    def _look_up(self, columns: Sequence[str]) -> None:
        self._columns = columns
        try:
            places = self._mapping.places(columns)
        except ConfigError:  # it is raised where the row is encoded
            places = {}
        usual = self._value_type is not None and places.keys() <= _CHUNKED and places.get(VALUE, -1) >= 0
        self._places = places if usual else None

    def _bodies(self, values: Sequence[Any]) -> Sequence[bytes] | None:
        if set(map(type, values)) != self._value_type or not all(values):
            return None
        if self._value_type is _BYTES:
            return values
        try:
            return list(map(str.encode, values))
        except UnicodeEncodeError:
            return None


def _type_of_values(mapping: RowMapping) -> set[type] | None:
    """The type of values that become bodies without a decision; None if there is none."""
    encoder = serializer(mapping.value_format)
    if isinstance(encoder, BinarySerializer):
        return _BYTES
    return _TEXT if isinstance(encoder, StringSerializer) else None


def _texts(columns: Sequence[tuple[str, Sequence[Any]]], count: int) -> Sequence[str] | None:
    """The encoded properties of columns that are given with the names of the properties."""
    encoded: Sequence[str] = [WAIT_TEXT] * count
    for name, column in columns:
        types = set(map(type, column))
        if types == _NULL:
            continue
        if not types <= _TEXT_OR_NULL:
            return None
        texts = column if types == _TEXT else [text for text in column if text is not None]
        joined = "".join(texts)
        if not all(texts) or not joined.isprintable() or (" " in joined and any(map(str.isspace, texts))):
            return None  # the only blank that is printable is the space
        encoded = [
            before if text is None else f"{before}{name}\x01{text}\x02"
            for before, text in zip(encoded, column, strict=True)
        ]
    return encoded
