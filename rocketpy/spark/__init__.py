"""Spark and RocketMQ: a sink for DataFrames, RDDs and streams.

``df.foreachPartition(rocketpy.spark.sink("Flights", namesrv="127.0.0.1:9876"))`` sends every row as a message. Nothing
here imports PySpark before Spark is in use.
"""

from __future__ import annotations

from rocketpy.spark.archive import archive
from rocketpy.spark.counts import Counts
from rocketpy.spark.provenance import Origin, provenance_of
from rocketpy.spark.settings import SinkConfig
from rocketpy.spark.sink import Sink, sink

__all__ = ["Counts", "Origin", "Sink", "SinkConfig", "archive", "provenance_of", "sink"]
