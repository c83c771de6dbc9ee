"""Each window in which a crash would store rows twice, with what claims to close it: workers and drivers are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy import Message
from rocketpy.spark import sink
from rocketpy.spark.settings import MARKER_TOPIC
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark import once_job
from tests.spark.dying_commits import BEFORE, PLACES
from tests.spark.killing import HALF, MIDDLE, PARTITIONS, ROWS, format_that_dies, killing, wait_for_death
from tests.spark.local_spark import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rocketpy import MessageExt

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python, and foreachBatch is asked on both lines")

LONG = 240.0
SMALL = {"batch_size": 50, "back_pressure_for_async_send_num": 100}
"""So few rows may be under way that most of the first half is sent at the middle."""


def numbered(spark: SparkSession) -> DataFrame:
    """Rows with numbers, in two partitions."""
    return spark.range(0, ROWS, 1, PARTITIONS).selectExpr("cast(id as string) as value")


def message_or_death(topic: str, pipe: Path) -> Callable[[Any], Message]:
    """Makes messages; the worker that sends them dies in the middle of the second partition."""

    def to_message(row: Any) -> Message:
        if row["value"] == str(HALF + MIDDLE):
            wait_for_death(pipe)
        return Message(topic, row["value"])

    return to_message


def times(servers: BlockingLocalCluster, topic: str) -> Counter[str]:
    return Counter(message.body.decode() for message in servers.messages(topic))


def markers(servers: BlockingLocalCluster, job_id: str) -> list[MessageExt]:
    """The markers of a batch job."""
    return [each for each in servers.messages(MARKER_TOPIC) if each.properties["SPARK_QID"] == job_id]


ALL = Counter(map(str, range(ROWS)))


def test_a_sink_whose_worker_is_killed_half_way_sends_only_the_rest(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"delivery": "effectively-once", "job_id": f"job-of-{topic}", **SMALL}
    to_message = message_or_death(topic, tmp_path / "pipe")
    written = sink(namesrv=servers.name_server_addresses, to_message=to_message, **settings)
    with killing(servers, topic, tmp_path / "pipe") as kill:
        written(numbered(spark), 0)
    assert 0 < kill.stored < HALF
    assert times(servers, topic) == ALL
    assert written.counts.sent == ROWS
    found = markers(servers, f"job-of-{topic}")
    assert [each.tags for each in found] == ["begin", "begin", "begin", "commit"]
    assert json.loads(found[-1].body)["rows"] == {"0": HALF, "1": HALF}

    written(numbered(spark), 0)
    assert times(servers, topic) == ALL, "run again as a whole, it sends nothing"


def test_a_format_writer_whose_worker_is_killed_half_way_sends_only_the_rest(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, tmp_path: Path
) -> None:
    options = {
        "namesrv": servers.name_server_addresses, "topic": topic, "delivery": "effectively-once",
        "jobId": f"job-of-{topic}", "batchSize": "50", "rocketmq.backPressureForAsyncSendNum": "100",
    }  # fmt: skip
    dying = format_that_dies(tmp_path / "pipe")
    spark.dataSource.register(dying)
    with killing(servers, topic, tmp_path / "pipe") as kill:
        numbered(spark).write.format(dying.name()).options(**options).mode("append").save()
    assert 0 < kill.stored < HALF
    assert times(servers, topic) == ALL
    assert [each.tags for each in markers(servers, f"job-of-{topic}")] == ["begin", "begin", "begin", "commit"]

    numbered(spark).write.format("rocketmq").options(**options).mode("append").save()
    assert times(servers, topic) == ALL, "run again as a whole, it sends nothing"
    assert len({message.message_id for message in servers.messages(topic)}) == ROWS


FILES, LINES = 2, 20


def test_queries_that_are_killed_before_at_and_after_the_marker_store_each_row_once(
    spark: SparkSession, servers: BlockingLocalCluster, tmp_path: Path
) -> None:
    """An application dies in a micro-batch of each of its queries; this one goes on from their checkpoints."""
    (tmp_path / "in").mkdir()
    wanted = [f"{file}-{line}" for file in range(FILES) for line in range(LINES)]
    for file in range(FILES):
        text = "".join(f"{each}\n" for each in wanted[file * LINES : (file + 1) * LINES])
        (tmp_path / "in" / f"{file}.txt").write_text(text, "utf-8")
    namesrv, said = servers.name_server_addresses, tmp_path / "said"
    command = [sys.executable, "-m", "tests.spark.once_job", str(tmp_path), namesrv]
    with said.open("ab") as output:
        ended = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, timeout=LONG, check=False)
    assert ended.returncode == -signal.SIGKILL, said.read_text("utf-8")
    for topic in PLACES:
        assert len(servers.messages(topic)) == LINES, "all of a micro-batch was sent"
        assert not list((tmp_path / "checkpoints" / topic / "commits").glob("[0-9]*")), "and Spark does not know it"
    marked = Counter(
        each.properties.get("SPARK_TOPIC") for each in servers.messages(MARKER_TOPIC) if each.tags == "commit"
    )
    assert {topic: marked[topic] for topic in PLACES} == {
        topic: int(place != BEFORE) for topic, place in PLACES.items()
    }

    for query in once_job.start(spark, tmp_path, namesrv):
        query.awaitTermination()
    assert {topic: times(servers, topic) for topic in PLACES} == {topic: Counter(wanted) for topic in PLACES}
