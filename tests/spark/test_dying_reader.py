"""A driver that reads from the latest offsets on is killed in its first micro-batch: the next one loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketpy.spark.source.stream import BEGINS
from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.local_spark import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")

LONG = 240.0


def test_a_reader_that_dies_in_its_first_batch_loses_nothing(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, tmp_path: Path
) -> None:
    namesrv, said = servers.name_server_addresses, tmp_path / "said"
    command = [sys.executable, "-m", "tests.spark.dying_reader_job", str(tmp_path), namesrv, topic]
    with said.open("ab") as into:
        ran = subprocess.run(command, cwd=ROOT, stdout=into, stderr=into, timeout=LONG, check=False)
    assert ran.returncode == -signal.SIGKILL, said.read_text("utf-8")
    checkpoint = tmp_path / "checkpoint"
    (offsets,) = (checkpoint / "offsets").glob("[0-9]*")
    assert offsets.name == "0"
    assert not list((checkpoint / "commits").glob("[0-9]*"))
    begins = json.loads(offsets.read_text("utf-8").splitlines()[-1])[BEGINS][topic]["broker-a"]
    with Producer("dying-reader-tests", namesrv=namesrv) as producer:
        producer.send_many([Message(topic, b"while it is away") for _ in range(20)])

    read: list[tuple[int, int]] = []

    def take(rows: DataFrame, _batch_id: int) -> None:
        read.extend((row.queue_id, row.offset) for row in rows.select("queue_id", "offset").collect())

    given = {"namesrv": namesrv, "subscribe": topic, "startingOffsets": "latest"}
    stream = spark.readStream.format("rocketmq").options(**given).load().writeStream.foreachBatch(take)
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(LONG)

    stored = [(each.queue_id, each.queue_offset) for each in servers.messages(topic)]
    wanted = [(queue, offset) for queue, offset in stored if offset >= begins[str(queue)]]
    assert sorted(read) == sorted(wanted)
    assert 20 <= len(wanted) < len(stored)  # the first messages came before the query
