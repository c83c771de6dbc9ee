"""A driver that streams files into a topic, and is killed on request once a micro-batch is sent but not yet done.

Run by test_dying_driver.py as ``python -m tests.spark.dying_job HOME NAMESRV BATCH``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpy.spark import sink
from tests.spark.local_spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "Dying"
NEVER = -1
"""No batch has this number."""


def work_off(spark: SparkSession, home: Path, namesrv: str, last: int) -> None:
    """Send what is in HOME/in, from HOME/checkpoint on; with `last`, this process dies in that batch."""
    to = sink(TOPIC, namesrv=namesrv, value_format="string", provenance=True)

    def send(rows: DataFrame, batch_id: int) -> None:
        to(rows, batch_id)
        if batch_id == last:
            os.kill(os.getpid(), signal.SIGKILL)

    files = spark.readStream.option("maxFilesPerTrigger", 1).text(str(home / "in"))
    stream = files.writeStream.foreachBatch(send).option("checkpointLocation", str(home / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Work off what is there, until the batch in which this is killed."""
    home, namesrv, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with local_session(home / "spark") as spark:
        work_off(spark, home, namesrv, last)


if __name__ == "__main__":
    main()
