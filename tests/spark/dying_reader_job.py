"""A driver that streams a topic from the latest offsets on, and is killed in its first micro-batch.

Run by test_dying_reader.py as ``python -m tests.spark.dying_reader_job HOME NAMESRV TOPIC``. It sends messages itself
all the while, so that some arrive between the moments at which Spark asks where to start and where to end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rocketpy.sync import Message, Producer
from tests.spark.local_spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


PAUSE = 0.002
"""Seconds between messages: Spark asks where to start and where to end some hundredths of a second apart."""


def send_on(producer: Producer, topic: str) -> None:
    """Send until the process ends."""
    never = threading.Event()
    for number in count():
        producer.send(Message(topic, b"%d" % number))
        never.wait(PAUSE)


def killed(_rows: DataFrame, _batch_id: int) -> None:
    """Spark has written down where the micro-batch ends, and does not learn that it is done."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Start the query, which ends the process."""
    home, namesrv, topic = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with Producer("dying-reader", namesrv=namesrv) as producer, local_session(home / "spark") as spark:
        threading.Thread(target=send_on, args=(producer, topic), daemon=True).start()
        given = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "latest"}
        stream = spark.readStream.format("rocketmq").options(**given).load().writeStream.foreachBatch(killed)
        stream.option("checkpointLocation", str(home / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main()
