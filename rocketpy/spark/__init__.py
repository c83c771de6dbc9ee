"""Spark and RocketMQ: a sink for DataFrames, RDDs and streams, and a data source for DataFrames and streams.

``spark.read.format("rocketmq").option("subscribe", "Flights").load()`` reads the messages of a topic as rows, and
``df.write.format("rocketmq").mode("append").option("topic", "Flights").save()`` sends rows as messages.
``df.foreachPartition(rocketpy.spark.sink("Flights", namesrv="127.0.0.1:9876"))`` does so too. With PySpark 3.5, use
this sink to write, and `rdd` to read. Nothing here imports PySpark before Spark is in use.
"""

from __future__ import annotations

from rocketpy.spark.archive import archive
from rocketpy.spark.counts import Counts
from rocketpy.spark.provenance import Origin, provenance_of
from rocketpy.spark.rdd import commit_offsets, offset_ranges, rdd
from rocketpy.spark.registering import register
from rocketpy.spark.settings import SinkConfig
from rocketpy.spark.sink import Sink, sink
from rocketpy.spark.source.loss import DataLossError
from rocketpy.spark.source.offsets import OffsetRange

__all__ = [
    "Counts",
    "DataLossError",
    "OffsetRange",
    "Origin",
    "Sink",
    "SinkConfig",
    "archive",
    "commit_offsets",
    "offset_ranges",
    "provenance_of",
    "rdd",
    "register",
    "sink",
]
