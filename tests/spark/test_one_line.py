"""Driver, workers and JVM are of one line of Spark, and of the one that was asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tools.second_spark import EXPECTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession


def version_of_worker(_rows: Iterable[object]) -> Iterator[str]:
    import pyspark

    yield pyspark.__version__


def test_driver_workers_and_jvm_are_of_one_line(spark: SparkSession) -> None:
    import pyspark

    driver = pyspark.__version__
    assert spark.version == driver
    assert spark.sparkContext.parallelize([1], 1).mapPartitions(version_of_worker).collect() == [driver]
    assert driver.startswith(os.environ.get(EXPECTED, ""))
