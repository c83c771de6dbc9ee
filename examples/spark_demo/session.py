"""A quiet Spark session on this machine."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from examples.spark_demo.interrupts import interrupts_wait, quiet_when_interrupted
from examples.spark_demo.java import NoSparkError, check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET = """\
rootLogger.level = off
logger.spark.name = org.apache.spark
logger.spark.level = off
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
"""
"""Errors in tasks arrive as exceptions; the log of the driver would only repeat each five times."""
MASTER = "local[*,4]"
"""As many tasks at a time as there are cores, each with up to four attempts; `local[*]` allows only one."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.files.maxPartitionBytes": "4m",  # a file of 31 MB makes eight tasks, so that there is progress to see
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
}


class FailedJobError(Exception):
    """Spark gave a job up; the text is the last line of the task that failed."""


@contextlib.contextmanager
def told_in_a_line() -> Iterator[None]:
    """Turn the exceptions of Spark, which have pages of Java and Python stacks, into one line.

    Raises:
        FailedJobError: the job in the block failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as exc:
        lines = str(exc).splitlines()
        ours = (line for line in lines if line.startswith("rocketpy."))
        raise FailedJobError(next(reversed([*ours]), lines[0] if lines else type(exc).__name__)) from exc


@contextlib.contextmanager
def session(name: str) -> Iterator[SparkSession]:
    """A local session with one task for each core, which ends with the block.

    Raises:
        NoSparkError: Java or PySpark is missing.
    """
    check_java()
    quiet_when_interrupted()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)  # it is not used here
    try:
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise NoSparkError("PySpark is not installed: run this as `./dev spark-demo`, or pip install pyspark") from exc
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers must run this Python, not another one on PATH
    with tempfile.TemporaryDirectory(prefix="spark-demo-") as folder:
        log = Path(folder, "log4j2.properties")
        log.write_text(QUIET, "utf-8")
        builder = SparkSession.builder.master(MASTER).appName(name)
        builder.config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log.as_uri()}")
        builder.config("spark.local.dir", folder)
        for key, value in SETTINGS.items():
            builder.config(key, value)
        spark: SparkSession | None = None
        try:
            with interrupts_wait():
                spark = builder.getOrCreate()
            yield spark
        finally:
            if spark is not None:
                spark.stop()
