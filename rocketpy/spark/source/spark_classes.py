"""The readers that PySpark asks: thin, and the only part of the source that knows PySpark (4.0 or newer).

Spark makes several copies of a reader, in the process that plans and in those that read: nothing is opened in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from rocketpy.spark.collector import spare_collector
from rocketpy.spark.source.batch import BatchRead
from rocketpy.spark.source.shape import VALUE
from rocketpy.spark.source.stream import StreamRead

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from rocketpy.spark.source.options import SourceOptions

__all__ = ["BatchReader", "FilteringBatchReader", "StreamReader"]


class _WithoutAvailableNow:
    """Stands in for what PySpark 4.0 and 4.1 do not have."""


# By their names, because type checks need no PySpark.
_spark: Any = import_module("pyspark.sql.datasource")
try:
    _limits: Any = import_module("pyspark.sql.streaming.datasource")
    _AvailableNow: Any = _limits.SupportsTriggerAvailableNow
except ImportError:  # without limits of its own, so that the source keeps them itself
    _limits, _AvailableNow = None, _WithoutAvailableNow


def _partitions(ranges: Iterable[Any]) -> list[InputPartition]:
    return [_spark.InputPartition(each) for each in ranges]


def _read(partition: InputPartition | None, options: SourceOptions, schema: Any) -> Iterator[Any]:
    """The rows of one partition, as record batches."""
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema  # pyarrow is needed where rows are read
    from rocketpy.spark.source.reading import read_range
    from rocketpy.spark.source.values import values_of

    # Of no partitions at all Spark makes one without a value, and before 4.2 one that is None.
    wanted = None if partition is None else partition.value
    if wanted is None:
        return
    spare_collector()  # once the modules of a reader are there
    kind = _value_type(options, schema)
    maker = BatchMaker(options.shape, wanted.queue, arrow_schema(options.shape, kind), values_of(options.shape, kind))
    yield from read_range(wanted, options, maker)


def _value_type(options: SourceOptions, schema: Any) -> Any:
    """Arrow's type of a value that is decoded by a schema, None for other values."""
    if options.shape.value_schema is None or VALUE not in options.shape.columns:
        return None
    to_arrow_schema = import_module("pyspark.sql.pandas.types").to_arrow_schema
    by_zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **by_zone).field(VALUE).type


class BatchReader(_spark.DataSourceReader):  # type: ignore[misc]
    """A batch read."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        self._core = BatchRead(options)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """What each task reads."""
        return _partitions(self._core.plan())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task."""
        return _read(partition, self._core.options, self._schema)


class FilteringBatchReader(BatchReader):
    """A batch read that takes filters. Spark refuses a class with this method unless its configuration allows it."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take filters; returns those that Spark has to apply."""
        return self._core.push(filters)


class StreamReader(_spark.DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """A stream."""

    def __init__(self, options: SourceOptions, schema: Any) -> None:
        self._core = StreamRead(options)
        self._schema = schema

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query starts."""
        return self._core.initial()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Where the next micro-batch ends. PySpark before 4.2 gives neither its start nor a limit."""
        if limit is None:
            return self._core.latest(start, most=self._core.options.max_offsets_per_trigger)
        return self._core.latest(start, most=getattr(limit, "max_rows", None))

    def getDefaultReadLimit(self) -> Any:
        """What limits micro-batches, unless the trigger does."""
        most = self._core.options.max_offsets_per_trigger
        return _limits.ReadAllAvailable() if most is None else _limits.ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where queues end, for the progress of the query."""
        return self._core.report()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read to where queues end now, and no further."""
        self._core.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What each task of a micro-batch reads."""
        return _partitions(self._core.plan(start, end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task."""
        return _read(partition, self._core.options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """A micro-batch is done."""
        self._core.commit(end)
