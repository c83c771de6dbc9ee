"""Submitted to Spark by test_executors.py, where executors have no rocketpy but what the job brings.

Not a test module: it runs in a Python without pytest. It writes rows to a topic, reads them again, and prints, as its
last line, what there was to see as JSON. A driver that has rocketpy installed sends it along; where it came by
`--py-files`, the executors have it already. With pyarrow, the topic is read by format("rocketmq") too, and another
one, TOPIC-by-format, is written by it.

Usage: spark-submit ... executors_job.py TOPIC NAMESRV ROWS
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

import rocketpy.spark


def seen_by_a_task(_rows: Iterable[object]) -> Iterator[list[str]]:
    import msgpack

    import rocketpy

    yield [
        os.path.realpath(SparkFiles.getRootDirectory()),
        sys.executable,
        rocketpy.__file__,
        msgpack.Packer.__module__,
    ]


def keys_read_by_a_task(messages: Iterable[Any]) -> Iterator[tuple[str, list[str]]]:
    """Where the task ran, and the keys of its messages or rows."""
    found = [" ".join(each["keys"] if hasattr(each, "__fields__") else each.keys) for each in messages]
    yield os.path.realpath(SparkFiles.getRootDirectory()), found


def read_again(session: SparkSession, topic: str, namesrv: str) -> dict[str, list[tuple[str, list[str]]]]:
    """Read the topic by every way that there is here."""
    messages = rocketpy.spark.rdd(session.sparkContext, topic, namesrv=namesrv)
    read = {"rdd": messages.mapPartitions(keys_read_by_a_task).collect()}
    if importlib.util.find_spec("pyarrow"):
        rocketpy.spark.register(session)
        reader = session.read.format("rocketmq").options(namesrv=namesrv, subscribe=topic)
        read["format"] = reader.load().select("keys").rdd.mapPartitions(keys_read_by_a_task).collect()
    return read


def placed_rows(numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Rows that say where the task runs that writes them."""
    for number in numbers:
        yield os.path.realpath(SparkFiles.getRootDirectory()), f"key-{number}"


def write_by_format(session: SparkSession, topic: str, namesrv: str, rows: int) -> None:
    """Write rows once each, with the markers of every task."""
    made = session.sparkContext.parallelize(range(rows), 4).mapPartitions(placed_rows)
    writer = session.createDataFrame(made, "value string, keys string").write.format("rocketmq").mode("append")
    writer.options(namesrv=namesrv, topic=topic, delivery="effectively-once", jobId=topic).save()


def main(topic: str, namesrv: str, rows: str) -> None:
    session = SparkSession.builder.getOrCreate()
    if os.path.isfile(rocketpy.__file__):
        session.sparkContext.addPyFile(rocketpy.spark.archive())
    seen = session.sparkContext.parallelize(range(8), 8).mapPartitions(seen_by_a_task).collect()
    sink = rocketpy.spark.sink(topic, namesrv=namesrv, columns={"value": "*", "keys": "keys"}, value_format="msgpack")
    frame = session.range(0, int(rows), 1, 4).selectExpr("id AS number", "concat('key-', id) AS keys")
    frame.foreachPartition(sink)
    counts = sink.counts
    read = read_again(session, topic, namesrv)
    if "format" in read:
        write_by_format(session, f"{topic}-by-format", namesrv, int(rows))
    session.stop()
    written = {"sent": counts.sent, "bytes": counts.bytes}
    print(json.dumps({"seen": seen, **written, "driver": rocketpy.__file__, "read": read}))


if __name__ == "__main__":
    main(*sys.argv[1:])
