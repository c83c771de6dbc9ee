"""A driver that streams files into a topic by each query, and is killed where they end their first micro-batch.

Run by test_once.py as ``python -m tests.spark.once_job HOME NAMESRV``; `dying_commits` says where queries die.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpy.spark import sink
from tests.spark import dying_commits
from tests.spark.dying_commits import PLACES
from tests.spark.local_spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ONCE = "Before"
"""The topic of the query that is effectively once; the other ones have markers alone."""
BY_SINK = "After-in-foreachBatch"
"""The topic of the query that has a sink; the other ones have the format."""


def start(spark: SparkSession, home: Path, namesrv: str, name: str = "rocketmq") -> list[StreamingQuery]:
    """Start all queries; each takes a file for each micro-batch, in two partitions.

    Args:
        spark: the session.
        home: has the folder "in" with the files, and the checkpoints.
        namesrv: the name server.
        name: of the format.
    """
    queries = []
    for topic in PLACES:
        delivery = "effectively-once" if topic == ONCE else "commit-marker"
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(home / "in")).repartition(2)
        if topic == BY_SINK:
            to = sink(topic, namesrv=namesrv, value_format="string", delivery=delivery)
            writer = lines.writeStream.foreachBatch(to)
        else:
            writer = lines.writeStream.format(name).options(namesrv=namesrv, topic=topic, delivery=delivery)
        writer = writer.option("checkpointLocation", str(home / "checkpoints" / topic))
        queries.append(writer.trigger(availableNow=True).start())
    return queries


def main() -> None:
    """Work off what is in HOME/in, until this is killed."""
    home, namesrv = Path(sys.argv[1]), sys.argv[2]
    os.environ[dying_commits.HOME] = str(home)
    dying_commits.install()
    with local_session(home / "spark", master="local[4]") as spark:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        (home / dying_commits.PIDS).write_text(f"{gateway.proc.pid} {os.getpid()}", "utf-8")
        spark.dataSource.register(dying_commits.DyingSource)
        for query in start(spark, home, namesrv, "dying"):
            query.awaitTermination()


if __name__ == "__main__":
    main()
