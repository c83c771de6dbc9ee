"""A driver that streams files into a topic, and is killed on request once a micro-batch is sent but not yet done.

Run by test_dying_driver.py as ``python -m tests.spark.dying_job HOME NAMESRV BATCH``; no batch is number -1.
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
    from pyspark.sql import DataFrame

TOPIC = "Dying"


def main() -> None:
    """Work off what is in HOME/in, from HOME/checkpoint on."""
    home, namesrv, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    to = sink(TOPIC, namesrv=namesrv, value_format="string", provenance=True)

    def send(rows: DataFrame, batch_id: int) -> None:
        to(rows, batch_id)
        if batch_id == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with local_session(home / f"spark-{last}") as spark:
        files = spark.readStream.option("maxFilesPerTrigger", 1).text(str(home / "in"))
        stream = files.writeStream.foreachBatch(send).option("checkpointLocation", str(home / "checkpoint"))
        stream.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
