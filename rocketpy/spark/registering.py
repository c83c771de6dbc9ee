"""Registers ``format("rocketmq")`` with a Spark session that does not find it by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_EXISTS = "[DATA_SOURCE_ALREADY_EXISTS]"


def register(spark: SparkSession) -> None:
    """Make ``format("rocketmq")`` known to a session.

    PySpark 4 finds the format by itself where rocketpy is installed. Call this where it does not, such as after adding
    rocketpy to a running session as an archive.

    Raises:
        ConfigError: this PySpark has no data sources in Python.
    """
    from pyspark_rocketmq import DefaultSource

    if DefaultSource is None:
        raise ConfigError(
            'format("rocketmq") needs PySpark 4.0 or newer: with this one, write with rocketpy.spark.sink, and read '
            "with rocketpy.spark.rdd"
        )
    try:
        spark.dataSource.register(DefaultSource)
    except Exception as exc:
        # PySpark 4.0 does not take again what it has found by itself; no class of PySpark names that error.
        if _EXISTS not in str(exc):
            raise
