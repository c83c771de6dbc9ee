"""Submitted to Spark by test_executors.py, where executors have no rocketpy but what the job brings.

Not a test module: it runs in a Python without pytest. It writes rows to a topic and prints, as its last line, what
there was to see as JSON. A driver that has rocketpy installed sends it along; where it came by `--py-files`, the
executors have it already.

Usage: spark-submit ... executors_job.py TOPIC NAMESRV ROWS
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator

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


def main(topic: str, namesrv: str, rows: str) -> None:
    session = SparkSession.builder.getOrCreate()
    if os.path.isfile(rocketpy.__file__):
        session.sparkContext.addPyFile(rocketpy.spark.archive())
    seen = session.sparkContext.parallelize(range(8), 8).mapPartitions(seen_by_a_task).collect()
    sink = rocketpy.spark.sink(topic, namesrv=namesrv, columns={"value": "*", "keys": "keys"}, value_format="msgpack")
    frame = session.range(0, int(rows), 1, 4).selectExpr("id AS number", "concat('key-', id) AS keys")
    frame.foreachPartition(sink)
    counts = sink.counts
    session.stop()
    print(json.dumps({"seen": seen, "sent": counts.sent, "bytes": counts.bytes, "driver": rocketpy.__file__}))


if __name__ == "__main__":
    main(*sys.argv[1:])
