"""The ceiling of reads: a data source in Python that takes its rows from nowhere, as flat arrays of Arrow.

It needs PySpark 4, and is imported in the process that runs Spark alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

from benchmarks.spark.input import VALUE

NAME = "bench-generator"
QUEUES = 4
BATCH_ROWS = 10_000
STREAM_ROWS = 10
"""Rows of one partition of a micro-batch."""
COLUMNS = (
    "`key` string, `value` binary, `topic` string, `broker_name` string, `queue_id` int, `offset` bigint, "
    "`timestamp` timestamp, `properties` map<string,string>"
)
_MAP = pa.map_(pa.string(), pa.field("value", pa.string()))
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("broker_name", pa.string()),
        ("queue_id", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("properties", _MAP),
    ]
)
_BEGAN = 1_790_000_000_000_000
# By its name, because type checks need no PySpark.
_spark: Any = import_module("pyspark.sql.datasource")


def batch(queue: int, start: int, count: int) -> pa.RecordBatch:
    """Rows as a source has them: what differs from row to row in lists, the rest repeated by Arrow."""
    numbers = range(start, start + count)

    def same(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), count)

    names, values = pa.array(["source"] * count, pa.string()), pa.array(["bench"] * count, pa.string())
    arrays = [
        pa.array([f"order-{number}" for number in numbers], pa.string()),
        pa.array([VALUE] * count, pa.binary()),
        same("BenchRead", pa.string()),
        same("broker-a", pa.string()),
        same(queue, pa.int32()),
        pa.array(list(numbers), pa.int64()),
        pa.array([_BEGAN + number for number in numbers], _SCHEMA.field("timestamp").type),
        pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), names, values, type=_MAP),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _rows(partition: Any) -> Iterator[pa.RecordBatch]:
    queue, rows = partition.value
    for start in range(0, rows, BATCH_ROWS):
        yield batch(queue, start, min(BATCH_ROWS, rows - start))


def _partitions(rows: int) -> list[Any]:
    return [_spark.InputPartition((queue, rows)) for queue in range(QUEUES)]


class _Batch(_spark.DataSourceReader):  # type: ignore[misc]
    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[Any]:
        return _partitions(self._rows // QUEUES)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _rows(partition)


class _Stream(_spark.DataSourceStreamReader):  # type: ignore[misc]
    """Has a few rows more whenever it is asked."""

    def __init__(self) -> None:
        self._asked = 0

    def initialOffset(self) -> dict[str, int]:
        return {"asked": 0}

    def latestOffset(self) -> dict[str, int]:
        self._asked += 1
        return {"asked": self._asked}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
        return _partitions(STREAM_ROWS)

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return _rows(partition)

    def commit(self, end: dict[str, int]) -> None:
        pass


class Generator(_spark.DataSource):  # type: ignore[misc]
    """The format; its option `rows` says how many there are in a batch read."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> str:
        """The columns."""
        return COLUMNS

    def reader(self, schema: Any) -> _Batch:
        """The reader of a batch read."""
        return _Batch(int(self.options["rows"]))

    def streamReader(self, schema: Any) -> _Stream:
        """The reader of a stream."""
        return _Stream()
