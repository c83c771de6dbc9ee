"""The process in which Spark reads, writes and streams: ``python -m benchmarks.spark.pipeline_driver CORES``.

It says "ready" when the session is up. Then each line that it reads is a request as JSON, an object with the name of
what to do and its arguments, and is answered with one number.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.spark.driver import WARM_ROWS, session
from benchmarks.spark.generator import NAME as GENERATOR
from benchmarks.spark.generator import QUEUES, STREAM_ROWS, Generator
from benchmarks.spark.input import TOPIC, drain, frame

WARM_BATCHES = 5
SETTLED = 2.0
"""Seconds after which a new query has nothing to do but to ask for messages."""


class Doings:
    """What the process can do, each by the name of its method."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._query: Any = None

    def generate(self, *, rows: int) -> float:
        """Read from the generator; the seconds that it took."""
        return self._timed(self._spark.read.format(GENERATOR).option("rows", rows).load())

    def count(self, **options: str) -> float:
        """How many messages there are."""
        return float(self._spark.read.format("rocketmq").options(**options, columns="offset").load().count())

    def read(self, **options: str) -> float:
        """Read messages; the seconds that it took."""
        return self._timed(self._spark.read.format("rocketmq").options(**options).load())

    def foreach(self, *, rows: int, namesrv: str) -> float:
        """Write rows by a sink; the seconds that it took."""
        from rocketpy.spark import sink

        data, send = frame(self._spark, rows), sink(TOPIC, namesrv=namesrv)
        began = time.perf_counter()
        data.foreachPartition(send)
        return time.perf_counter() - began

    def write(self, *, rows: int, namesrv: str) -> float:
        """Write rows by the format; the seconds that it took."""
        writer = frame(self._spark, rows).write.format("rocketmq").mode("append")
        began = time.perf_counter()
        writer.options(namesrv=namesrv, topic=TOPIC).save()
        return time.perf_counter() - began

    def batches(self, *, count: int, **options: str) -> float:
        """Milliseconds from one micro-batch to the next, while there is more to read all the time."""
        if options:
            limit = str(QUEUES * STREAM_ROWS)
            reader = self._spark.readStream.format("rocketmq").options(**options, maxOffsetsPerTrigger=limit)
            reader = reader.option("startingOffsets", "earliest")
        else:
            reader = self._spark.readStream.format(GENERATOR)
        with tempfile.TemporaryDirectory(prefix="rocketpy-bench-") as folder:
            query = started(reader.load(), folder)
            try:
                while query.isActive and len(query.recentProgress) <= WARM_BATCHES + count:
                    time.sleep(0.2)
                if (error := query.exception()) is not None:
                    raise error
                began = [datetime.fromisoformat(each["timestamp"]) for each in query.recentProgress]
            finally:
                query.stop()
        gaps = [1000 * (after - before).total_seconds() for before, after in pairwise(began)]
        return median(gaps[WARM_BATCHES : WARM_BATCHES + count])

    def idle(self, *, folder: str, **options: str) -> float:
        """Start a query that has nothing to read; it goes on until `rest`."""
        self._query = query = started(self._spark.readStream.format("rocketmq").options(**options).load(), folder)
        while query.isActive and not query.status["message"].startswith("Waiting for"):
            time.sleep(0.1)
        time.sleep(SETTLED)
        if (error := query.exception()) is not None:
            raise error
        return 0.0

    def rest(self) -> float:
        """End the query of `idle`."""
        self._query.stop()
        return 0.0

    def _timed(self, data: Any) -> float:
        began = time.perf_counter()
        data.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - began


def started(data: Any, folder: str) -> Any:
    """A query that drops what it reads."""
    return data.writeStream.format("noop").option("checkpointLocation", folder).start()


def main() -> None:
    """Serve until there is no more to read."""
    spark = session(int(sys.argv[1]))
    spark.dataSource.register(Generator)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    doings = Doings(spark)
    frame(spark, WARM_ROWS).foreachPartition(drain)
    doings.generate(rows=WARM_ROWS)
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        do: Callable[..., float] = getattr(doings, request.pop("do"))
        print(json.dumps(do(**request)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
