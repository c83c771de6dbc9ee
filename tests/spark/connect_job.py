"""A Spark Connect client that sends through a sink: a DataFrame, a stream, and a row that fails.

Run by test_connect.py as ``python -m tests.spark.connect_job HOME NAMESRV``: a process can have a session of Connect or
one of its own, and the other tests have the latter. Connect starts its server as a JVM beside it, ended with the job.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpy.spark import sink
from tests.spark.class_archive import shared_home
from tests.spark.local_spark import SETTINGS, environment, make_home, pytest_environment, shared_jvm

ENOUGH = 240
"""Seconds for a query to end, on a machine however busy: the test that runs this has a limit of its own."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send(spark: SparkSession, namesrv: str, home: Path) -> None:
    """Send by every way that Connect has."""
    to = sink("Connected", namesrv=namesrv, value_format="string", provenance=True, job_id="connected-job")
    rows = spark.sql("select cast(id as string) as value, concat('key-', id) as keys from range(0, 50, 1, 2)")
    rows.foreachPartition(to)
    try:
        print(to.counts)
    except Exception as error:  # noqa: BLE001 - this is about its text
        print(f"no counts: {type(error).__name__}: {error}")
    (home / "in").mkdir()
    (home / "in" / "a.txt").write_text("".join(f"{number}\n" for number in range(100, 130)), "utf-8")
    stream = spark.readStream.text(str(home / "in")).writeStream.foreachBatch(to)
    query = stream.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(ENOUGH)
    once = sink("ConnectedOnce", namesrv=namesrv, value_format="string", delivery="effectively-once", job_id="once-job")
    for checkpoint in ("once", "once-again"):
        stream = spark.readStream.text(str(home / "in")).writeStream.foreachBatch(once)
        query = stream.option("checkpointLocation", str(home / checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(ENOUGH)
    nameless = sink("Connected", namesrv=namesrv, value_format="string", provenance=True)
    stream = spark.readStream.text(str(home / "in")).writeStream.foreachBatch(nameless)
    try:
        stream.trigger(availableNow=True).start().awaitTermination(ENOUGH)
    except Exception:  # noqa: BLE001 - this is about its text
        traceback.print_exc(file=sys.stdout)
    try:
        spark.sql("select cast(null as string) as value").foreachPartition(to)
    except Exception:  # noqa: BLE001 - this is about its text
        traceback.print_exc(file=sys.stdout)


def write(spark: SparkSession, namesrv: str, home: Path) -> None:
    """Send by the format, as a batch and as a stream; then make a mistake."""
    given = {"namesrv": namesrv, "topic": "Written", "provenance": "true"}
    rows = spark.sql("select cast(id as string) as value from range(0, 50, 1, 2)")
    rows.write.format("rocketmq").mode("append").options(**given).save()
    stream = spark.readStream.text(str(home / "in")).writeStream.format("rocketmq").options(**given)
    query = stream.option("checkpointLocation", str(home / "write-checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(ENOUGH)
    try:
        rows.write.format("rocketmq").mode("append").options(**given, topik="x").save()
    except Exception:  # noqa: BLE001 - this is about its text
        traceback.print_exc(file=sys.stdout)


def read(spark: SparkSession, namesrv: str, home: Path) -> None:
    """Read what was sent, as a batch and as a stream; the server finds the format by itself."""
    given = {"namesrv": namesrv, "subscribe": "Connected", "valueFormat": "string", "startingOffsets": "earliest"}
    rows = spark.read.format("rocketmq").options(**given).load().select("value", "tags").collect()
    print(f"read as a batch: {len({row.value for row in rows})}")
    try:
        spark.read.format("rocketmq").options(**given, maxOffsetsPerTrigger="5").load().collect()
    except Exception:  # noqa: BLE001 - this is about its text
        traceback.print_exc(file=sys.stdout)
    stream = spark.readStream.format("rocketmq").options(**given).load().writeStream.format("parquet")
    options = {"path": str(home / "read"), "checkpointLocation": str(home / "read-checkpoint")}
    query = stream.options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(ENOUGH)
    print(f"read as a stream: {spark.read.parquet(str(home / 'read')).select('value').distinct().count()}")


def main() -> None:
    """Run it all."""
    home, namesrv = Path(sys.argv[1]), sys.argv[2]
    make_home(home / "spark")
    with pytest_environment(environment(shared_home() or home / "spark")):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote("local[2]")
        for key, value in (SETTINGS | {"spark.driver.extraJavaOptions": shared_jvm(home / "spark")}).items():
            builder = builder.config(key, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark = builder.getOrCreate()
        try:
            send(spark, namesrv, home)
            read(spark, namesrv, home)
            write(spark, namesrv, home)
        finally:
            spark.stop()
    print("all of it was sent")


if __name__ == "__main__":
    main()
