"""The columns of the rows that the source gives, and how they follow from options. Pure.

Spark's Kafka source has the same names for the same things: value, topic, offset, timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import attrs

from rocketpy.errors import ConfigError
from rocketpy.spark.option_values import boolean, one_word

__all__ = ["COLUMNS", "PROPERTIES", "VALUE", "Shape", "shape_of"]

VALUE: Final = "value"
PROPERTIES: Final = "properties"
COLUMNS: Final[Mapping[str, str]] = {
    "keys": "array<string>",
    VALUE: "binary",
    "topic": "string",
    "broker_name": "string",
    "queue_id": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "born_timestamp": "timestamp",
    "tags": "string",
    "sharding_key": "string",
    "message_id": "string",
    PROPERTIES: "map<string,string>",
}
"""Every column with its type in Spark, in the order in which they come."""

_TO_SCHEMA: Final[Mapping[str, str]] = {
    "json": 'such as "a INT, b STRING"',
    "avro": "an Avro schema, as JSON",
}
"""Value formats that need a schema, and what it is."""
_FORMATS: Final = ("binary", "string", *_TO_SCHEMA)


@attrs.frozen(kw_only=True)
class Shape:
    """Which columns there are, and what the value is."""

    columns: tuple[str, ...] = tuple(COLUMNS)
    value_format: str = "binary"
    value_schema: str | None = None
    """For JSON the type in Spark, or the columns of a struct; for Avro the schema, as JSON."""
    bad_values: str = "fail"
    """Whether a value that is not of its format fails the task, or is null."""
    all_properties: bool = False
    """Whether the properties are RocketMQ's own too, not only those of the sender."""

    def ddl(self, value_type: str | None = None) -> str:
        """The schema as Spark reads it; all columns may be null.

        Args:
            value_type: the type of the value, where a schema gives it.
        """
        types = dict(COLUMNS)
        if value_type is not None:
            types[VALUE] = value_type
        elif self.value_format == "string":
            types[VALUE] = "string"
        return ", ".join(f"`{name}` {types[name]}" for name in self.columns)

    def with_columns(self, names: Sequence[str]) -> Shape:
        """The same with other columns, those of a schema that the user gave.

        Raises:
            ConfigError: a name is no column.
        """
        return attrs.evolve(self, columns=_checked("the schema", names))


def shape_of(options: Mapping[str, str]) -> Shape:
    """The shape that options ask for, by their names in `rocketpy.spark.source.names`.

    Raises:
        ConfigError: an option cannot be used.
    """
    given: dict[str, Any] = {}
    include = options.get("includeProperties", "true").strip().lower()
    wanted = include == "all" or boolean("includeProperties (which may also be all)", include)
    given["all_properties"] = include == "all"
    if (text := options.get("columns")) is not None:
        given["columns"] = _checked("columns", [name.strip() for name in text.split(",")])
        if PROPERTIES in given["columns"] and not wanted:
            raise ConfigError("columns names properties, and includeProperties is false: leave one of them out")
    elif not wanted:
        given["columns"] = tuple(name for name in COLUMNS if name != PROPERTIES)
    return Shape(**given, **_value_options(options))


def _checked(where: str, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, n=1, cutoff=0.6)
            advice = f"did you mean {near[0]}?" if near else f"its columns are {', '.join(COLUMNS)}"
            raise ConfigError(
                f"{where} has the column {name!r:.100}, which the RocketMQ source does not have: {advice}"
            )
    if len(set(names)) < len(names):
        raise ConfigError(f"{where} names a column twice: {', '.join(names)}")
    return tuple(names)


def _value_options(options: Mapping[str, str]) -> dict[str, Any]:
    value_format = options.get("valueFormat", "binary").strip().lower()
    schema = options.get("valueSchema")
    if value_format not in _FORMATS:
        raise ConfigError(f"valueFormat must be one of {', '.join(_FORMATS)}, not {value_format!r:.100}")
    if value_format in _TO_SCHEMA and not (schema or "").strip():
        raise ConfigError(f"valueFormat {value_format} needs valueSchema, {_TO_SCHEMA[value_format]}")
    if value_format not in _TO_SCHEMA and schema is not None:
        raise ConfigError(f"valueSchema is for valueFormat json and avro, and valueFormat is {value_format}")
    bad_values = one_word("badValues", options.get("badValues", "fail"), "fail", "null")
    if bad_values == "null" and value_format not in _TO_SCHEMA:
        raise ConfigError(f"badValues is for valueFormat json and avro: with {value_format}, no value is bad")
    return {"value_format": value_format, "value_schema": schema, "bad_values": bad_values}
