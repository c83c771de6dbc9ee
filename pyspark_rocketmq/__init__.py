"""``format("rocketmq")`` for Spark: PySpark 4 finds this package by its name, and registers `DefaultSource`.

Spark imports every package with such a name at the first look-up of any format, and an error here would break them all.
So nothing is imported here but what PySpark itself has; the rest is imported when the format is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["DefaultSource"]

try:
    _base: Any = import_module("pyspark.sql.datasource").DataSource
except ImportError:  # PySpark 3.5 has no data sources in Python, and looks for none
    _base = None

if _base is None:
    DefaultSource: Any = None
else:

    class DefaultSource(_base):  # type: ignore[no-redef,misc]  # type checks need no PySpark
        """RocketMQ as a data source. `rocketpy.spark` has all that it does."""

        @classmethod
        def name(cls) -> str:
            """The name of the format."""
            return "rocketmq"

        def schema(self) -> str:
            """The columns of the rows that are read."""
            from rocketpy.spark.source.entry import schema_of

            return schema_of(self.options)

        def reader(self, schema: Any) -> Any:
            """The reader of a batch read."""
            from rocketpy.spark.source.entry import batch_reader

            return batch_reader(self.options, schema)

        def streamReader(self, schema: Any) -> Any:
            """The reader of a stream."""
            from rocketpy.spark.source.entry import stream_reader

            return stream_reader(self.options, schema)

        def writer(self, schema: Any, overwrite: bool) -> Any:
            """The writer of a batch write."""
            from rocketpy.spark.writer.entry import batch_writer

            return batch_writer(self.options, schema, overwrite=overwrite)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            """The writer of a stream."""
            from rocketpy.spark.writer.entry import stream_writer

            return stream_writer(self.options, schema, overwrite=overwrite)
