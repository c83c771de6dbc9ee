"""The type in Spark of values in Avro, which follows from their schema.

Types are those of Spark's own `from_avro`. What has no counterpart there is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rocketpy.errors import ConfigError
from rocketpy.serialization.avro_schema import parsed

__all__ = ["SCHEMA", "spark_type"]

SCHEMA: Final = "valueSchema"
_MOST_DIGITS: Final = 38
_PRIMITIVES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL: Final[Mapping[tuple[str, str], str]] = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("string", "uuid"): "string",
    ("fixed", "uuid"): "binary",
}
_REFUSED: Final = frozenset(
    {"time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos", "duration", "big-decimal"}
)
_WIDENED: Final[Mapping[frozenset[str], str]] = {
    frozenset({"int", "long"}): "bigint",
    frozenset({"float", "double"}): "double",
}
"""Unions of numbers, of which the wider one holds both."""


def spark_type(schema: str) -> str:
    """The type, as in a schema of Spark; everything may be null.

    Args:
        schema: an Avro schema, as JSON.

    Raises:
        ConfigError: it is none, has types without a counterpart in Spark, or fastavro is not installed.
    """
    return _Types().of(parsed(schema, SCHEMA), "the value")


class _Types:
    """Types of one schema.

    Named types are defined where they come first, and named afterwards.
    """

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []
        """Records that the current place is in."""

    def of(self, schema: Any, place: str) -> str:
        """The type of a part of the schema."""
        if isinstance(schema, list):
            return self._union(schema, place)
        if isinstance(schema, str):
            if schema in self._open:
                raise ConfigError(
                    f"{SCHEMA}: {place} has the type {schema}, which contains itself, and no type of Spark can do that"
                )
            if schema not in self._named:
                return _leaf(schema, {}, place)
            schema = self._named[schema]
        kind = schema["type"]
        if "name" in schema:
            self._named[schema["name"]] = schema
        build = self._nested.get(kind)
        return _leaf(kind, schema, place) if build is None else build(self, schema, place)

    def _record(self, schema: Mapping[str, Any], place: str) -> str:
        if not schema["fields"]:
            raise ConfigError(f"{SCHEMA}: {place} is a record without fields, which cannot become a column")
        names = [field["name"] for field in schema["fields"]]
        if len({name.lower() for name in names}) < len(names):
            raise ConfigError(f"{SCHEMA}: {place} has fields whose names differ only in case, which Spark ignores")
        self._open.append(schema["name"])
        fields = [f"`{field['name']}`:{self.of(field['type'], field['name'])}" for field in schema["fields"]]
        self._open.pop()
        return f"struct<{','.join(fields)}>"

    def _array(self, schema: Mapping[str, Any], place: str) -> str:
        return f"array<{self.of(schema['items'], f'an element of {place}')}>"

    def _map(self, schema: Mapping[str, Any], place: str) -> str:
        return f"map<string,{self.of(schema['values'], f'a value of {place}')}>"

    def _union(self, schema: list[Any], place: str) -> str:
        kinds = [each for each in schema if each != "null"]
        if len(kinds) == 1:
            return self.of(kinds[0], place)
        plain = frozenset(each for each in kinds if isinstance(each, str))
        if len(plain) == len(kinds) and plain in _WIDENED:
            return _WIDENED[plain]
        raise ConfigError(
            f"{SCHEMA}: {place} is a union of {len(kinds)} types, and a column of Spark has one type: a union may be "
            "of one type and null, of int and long, or of float and double"
        )

    _nested: Final[Mapping[str, Callable[[_Types, Any, str], str]]] = {
        "record": _record,
        "error": _record,
        "array": _array,
        "map": _map,
    }


def _leaf(kind: str, schema: Mapping[str, Any], place: str) -> str:
    """The type of what has no parts."""
    logical = schema.get("logicalType")
    if kind == "null":
        raise ConfigError(f"{SCHEMA}: {place} is always null, so it has no type in Spark")
    if kind == "fixed" and schema["size"] < 1:
        raise ConfigError(f"{SCHEMA}: {place} is fixed, of size {schema['size']}: it has no content")
    if logical in _REFUSED:
        raise ConfigError(
            f"{SCHEMA}: {place} has the logical type {logical}, for which Spark has no type; without logicalType, it "
            f"is read as {_PRIMITIVES[kind]}"
        )
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal(schema, place)
    # Avro says that unknown logical types, and those at types that they are not for, count as not given.
    return _LOGICAL.get((kind, str(logical)), _PRIMITIVES[kind])


def _decimal(schema: Mapping[str, Any], place: str) -> str:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (type(precision) is type(scale) is int and 1 <= precision <= _MOST_DIGITS and 0 <= scale <= precision):
        raise ConfigError(
            f"{SCHEMA}: {place} is a decimal with precision {precision} and scale {scale}; a decimal of Spark has a "
            f"precision between 1 and {_MOST_DIGITS}, and a scale between 0 and the precision"
        )
    return f"decimal({precision},{scale})"
