"""What ``format("rocketmq")`` does with options, for `pyspark_rocketmq`, which must be able to fail at nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.errors import ConfigError
from rocketpy.spark.source.avro_types import spark_type
from rocketpy.spark.source.names import sorted_out
from rocketpy.spark.source.options import batch_options, stream_options
from rocketpy.spark.source.shape import COLUMNS, VALUE, Shape, shape_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

    from rocketpy.spark.source.options import SourceOptions

__all__ = ["batch_reader", "schema_of", "stream_reader"]

_NOT_OF_JSON = ("map<", "interval")
"""How types begin, as Spark shows them, that Arrow does not read from JSON."""


def schema_of(options: Mapping[str, str]) -> str:
    """The schema of the rows, as Spark reads it.

    Raises:
        ConfigError: an option cannot be used.
    """
    shape = shape_of(sorted_out(options)[0])
    return shape.ddl(_value_type(shape))


def _check_json(kind: Any) -> None:
    """Refuse types that are not read from JSON, at any depth of a type of Spark."""
    for inner in [field.dataType for field in getattr(kind, "fields", ())] or [getattr(kind, "elementType", None)]:
        if inner is not None:
            _check_json(inner)
    text = kind.simpleString()
    if text.startswith(_NOT_OF_JSON):
        raise ConfigError(
            f"valueSchema has {text}, which the RocketMQ source does not read from JSON: read the value as a string, "
            "and apply from_json"
        )


def _value_type(shape: Shape) -> str | None:
    if shape.value_format == "avro":
        return spark_type(shape.value_schema or "")
    if shape.value_format == "json":
        text = (shape.value_schema or "").strip()
        return text if text.lower().startswith(("struct<", "array<", "map<")) else f"struct<{text}>"
    return None


def _type_of_values(shape: Shape) -> str | None:
    """The type that values have, as Spark shows it; None for JSON, which is read as any type that is asked for."""
    if shape.value_format == "json":
        return None
    kind = _value_type(shape) or ("string" if shape.value_format == "string" else COLUMNS[VALUE])
    return kind.replace("`", "")


def batch_reader(options: Mapping[str, str], schema: Any) -> DataSourceReader:
    """The reader of a batch read.

    Raises:
        ConfigError: an option or the schema cannot be used.
    """
    from rocketpy.spark.source.spark_classes import BatchReader, FilteringBatchReader

    checked = with_schema(batch_options(options), schema)
    return (FilteringBatchReader if checked.push_down_filters else BatchReader)(checked, schema)


def stream_reader(options: Mapping[str, str], schema: Any) -> DataSourceStreamReader:
    """The reader of a stream.

    Raises:
        ConfigError: an option or the schema cannot be used.
    """
    from rocketpy.spark.source.spark_classes import StreamReader

    return StreamReader(with_schema(stream_options(options), schema), schema)


def with_schema(options: SourceOptions, schema: Any) -> SourceOptions:
    """Options for the columns of a schema, which the user may have given in place of the source's own.

    Args:
        options: the checked options.
        schema: a StructType of Spark.

    Raises:
        ConfigError: it has columns that the source does not have, or other types.
    """
    shape = options.shape.with_columns([field.name for field in schema.fields])
    types = {**COLUMNS, VALUE: _type_of_values(shape)}
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if types[field.name] not in (kind, None):
            raise ConfigError(
                f"the schema has {field.name} as {kind}, but the RocketMQ source gives {types[field.name]}: cast it "
                "after reading"
            )
        if not field.nullable:
            raise ConfigError(f"the schema says that {field.name} is never null, but the source cannot promise that")
        if field.name == VALUE and shape.value_format == "json":
            _check_json(field.dataType)
    return attrs.evolve(options, shape=shape)
