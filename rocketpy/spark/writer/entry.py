"""What ``format("rocketmq")`` does with options for writing, for `pyspark_rocketmq`, which must be able to fail at
nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger
from rocketpy.spark.writer.names import sorted_out
from rocketpy.spark.writer.options import columns_of, sink_config
from rocketpy.spark.writer.schema import Field, Selection, default_format, selection
from rocketpy.spark.writer.writing import Write

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

__all__ = ["batch_writer", "checked_write", "stream_writer"]

_OF_KAFKA: Final[Mapping[str, str]] = {
    "key": 'to find messages by it, set the option columns to {"keys": "key"}; for order, {"sharding_key": "key"}',
    "headers": "send a map or a struct of single values as the column properties",
    "partition": 'sharding keys choose the queue: set the option columns to {"sharding_key": "partition"}',
}
"""Columns of Spark's Kafka sink that mean nothing here, and what does the same."""

logger = get_logger(__name__)


def checked_write(options: Mapping[str, str], schema: Mapping[str, Any], *, streamed: bool) -> Write:
    """A write of rows with a schema.

    Args:
        options: the options, as Spark gives them.
        schema: the schema in Spark's JSON.
        streamed: whether it writes micro-batches.

    Raises:
        ConfigError: an option cannot be used, or rows of this schema cannot become messages.
    """
    own, producer = sorted_out(options, streamed=streamed)
    fields = [Field(each["name"], each["type"]) for each in schema["fields"]]
    config = sink_config(own, producer, default_format(columns_of(own), fields))
    if config.has_markers and config.job_id is None and not streamed:
        raise ConfigError(
            f"delivery {config.delivery} needs jobId in a batch write: it identifies the write when it is run again"
        )
    run = uuid.uuid4().hex if config.provenance and config.job_id is None and not streamed else None
    selected = selection(config.mapping, fields, own.get("dedupeKey"))
    _hint_at_ignored(fields, selected, config.mapping.topic)
    return Write(config=config, selection=selected, streamed=streamed, run=run)


def _hint_at_ignored(fields: Iterable[Field], selected: Selection, topic: str | None) -> None:
    for name in _OF_KAFKA.keys() & {field.name for field in fields}:
        if name not in selected.columns:
            _log_ignored(name, topic)


@lru_cache(256)  # Spark asks for the writer of a stream in each micro-batch, usually in the same process
def _log_ignored(name: str, topic: str | None) -> None:
    target = topic or "the topics of its rows"
    logger.warning("the column %s of a frame that is written to %s is ignored: %s", name, target, _OF_KAFKA[name])


def batch_writer(options: Mapping[str, str], schema: Any, *, overwrite: bool) -> DataSourceWriter:
    """The writer of a batch write.

    Raises:
        ConfigError: an option or the schema cannot be used, or the mode is overwrite.
    """
    if overwrite:
        raise ConfigError('a topic cannot be overwritten: use mode("append")')
    from rocketpy.spark.writer.spark_classes import BatchWriter

    return BatchWriter(checked_write(options, schema.jsonValue(), streamed=False).with_markers())


def stream_writer(options: Mapping[str, str], schema: Any, *, overwrite: bool) -> DataSourceStreamWriter:
    """The writer of a stream.

    Raises:
        ConfigError: an option or the schema cannot be used, or the output mode is complete.
    """
    if overwrite:
        raise ConfigError(
            'with outputMode("complete"), every micro-batch replaces the ones before, and a topic cannot be '
            'overwritten: use outputMode("append"), or foreachBatch with rocketpy.spark.sink'
        )
    from rocketpy.spark.writer import spark_classes

    return spark_classes.stream_writer(checked_write(options, schema.jsonValue(), streamed=True).with_markers())
