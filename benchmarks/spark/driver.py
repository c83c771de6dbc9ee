"""The process in which Spark runs: ``python -m benchmarks.spark.driver ROWS``.

It says "ready" when the session is up, the rows are there and every loop has gone over a few of them; then each line
that it reads names a loop, and name servers for one that sends, and is answered with the seconds that it took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.spark.input import TOPIC, drain, frame, pairs, to_message

WARM_ROWS = 20_000
Loop = Callable[[Any], None]


def session(cores: int) -> Any:
    """A local session without a page of its own, quiet."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("bench")
    for setting in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(setting, "false")
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def loop_of(name: str, namesrv: str) -> Loop:
    """What is done with the rows of each partition."""
    if not name.endswith("-sink"):
        return drain
    from rocketpy.spark import sink

    send: Loop = sink(TOPIC, namesrv=namesrv) if name.startswith("df") else sink(namesrv=namesrv, to_message=to_message)
    return send


def main() -> None:
    """Serve until there is no more to read."""
    rows = int(sys.argv[1])
    spark = session(2)
    data = {"df": frame(spark, rows), "rdd": pairs(spark, rows)}
    for warm in (frame(spark, WARM_ROWS), data["rdd"], data["df"]):
        warm.foreachPartition(drain)
    print("ready", flush=True)
    for line in sys.stdin:
        name, namesrv = json.loads(line)
        loop = loop_of(name, namesrv)
        began = time.perf_counter()
        data[name.partition("-")[0]].foreachPartition(loop)
        print(json.dumps(time.perf_counter() - began), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
