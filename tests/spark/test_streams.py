"""Streams through `foreachBatch`: every batch arrives, and one that is run again can be told from new messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.message import MessageExt
from rocketpy.spark import provenance_of, sink
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.local_spark import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

ENOUGH = 90.0
"""Seconds for a query to end that has all its input."""


class Files:
    """A directory that a stream reads one file a batch, and the query that does, which can be started again."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self.inbox = home / "in"
        self.inbox.mkdir()
        self._checkpoint = home / "checkpoint"

    def add(self, name: str, values: Sequence[str]) -> None:
        """Put a file there, whole at once."""
        lines = "".join(json.dumps({"value": value, "keys": f"key-{value}"}) + "\n" for value in values)
        (self.inbox.parent / name).write_text(lines, "utf-8")
        (self.inbox.parent / name).rename(self.inbox / name)

    def run(self, each_batch: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Work off what is there and was not yet; from the checkpoint of the last time, if there was one."""
        source = self._spark.readStream.schema("value string, keys string").option("maxFilesPerTrigger", 1)
        stream = source.json(str(self.inbox)).writeStream.foreachBatch(each_batch)
        query = stream.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(ENOUGH)
        finally:
            query.stop()
        return query


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def values(start: int, stop: int) -> list[str]:
    return [f"{number:04}" for number in range(start, stop)]


def bodies(messages: Sequence[MessageExt]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


def without_repeats(messages: Sequence[MessageExt]) -> list[MessageExt]:
    """What a consumer keeps that drops messages whose origin it has seen."""
    return list({provenance_of(message): message for message in messages}.values())


class BreaksAfter:
    """Sends a batch and then fails, as a driver that dies before Spark has written down that the batch is done."""

    def __init__(self, to: Callable[[DataFrame, int], None], batch: int) -> None:
        self._to = to
        self._batch = batch

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self._to(rows, batch_id)
        if batch_id == self._batch:
            raise ConnectionError("the driver is gone")


def test_a_file_stream_arrives_batch_by_batch(files: Files, servers: BlockingLocalCluster) -> None:
    files.add("a.json", values(0, 100))
    files.add("b.json", values(100, 250))
    to = sink("Files", namesrv=servers.name_server_addresses, value_format="string", provenance=True)
    query = files.run(to)
    messages = servers.wait_messages("Files", 250)
    assert bodies(messages) == values(0, 250)
    assert {message.keys for message in messages} == {(f"key-{value}",) for value in values(0, 250)}
    assert {message.properties["SPARK_QID"] for message in messages} == {query.id}
    by_batch = [
        bodies([message for message in messages if message.properties["SPARK_BID"] == batch]) for batch in ("0", "1")
    ]
    assert sorted(by_batch, key=len) == [values(0, 100), values(100, 250)]
    assert len(without_repeats(messages)) == 250
    assert (to.counts.sent, to.counts.bytes) == (250, 1000)


def test_a_stream_goes_on_where_it_was(files: Files, servers: BlockingLocalCluster) -> None:
    def new_sink() -> Any:
        return sink("Resumed", namesrv=servers.name_server_addresses, value_format="string", provenance=True)

    files.add("a.json", values(0, 50))
    first = files.run(new_sink())
    files.add("b.json", values(50, 80))
    again = files.run(new_sink())
    assert again.id == first.id
    assert again.runId != first.runId
    messages = servers.wait_messages("Resumed", 80)
    assert bodies(messages) == values(0, 80)
    assert {(each.properties["SPARK_QID"], each.properties["SPARK_BID"]) for each in messages} == {
        (first.id, "0"),
        (first.id, "1"),
    }


def test_a_batch_that_is_run_again_says_so(files: Files, servers: BlockingLocalCluster) -> None:
    def new_sink() -> Any:
        return sink("Repeated", namesrv=servers.name_server_addresses, value_format="string", provenance=True)

    files.add("a.json", values(0, 40))
    files.add("b.json", values(40, 100))
    from pyspark.errors import StreamingQueryException

    with pytest.raises(StreamingQueryException, match="the driver is gone"):
        files.run(BreaksAfter(new_sink(), batch=1))
    assert len(servers.wait_messages("Repeated", 100)) == 100
    files.run(new_sink())
    messages = servers.wait_messages("Repeated", 100)
    of_second = [message for message in messages if message.properties["SPARK_BID"] == "1"]
    of_first = [message for message in messages if message.properties["SPARK_BID"] == "0"]
    assert len(messages) == 100 + len(of_second) // 2
    assert len(of_second) == 2 * (100 - len(of_first))
    kept = without_repeats(messages)
    assert bodies(kept) == values(0, 100)
    for origin in {provenance_of(message) for message in of_second}:
        assert origin is not None
        twins = [message for message in of_second if provenance_of(message) == origin]
        assert len(twins) == 2
        assert twins[0].body == twins[1].body


@pytest.mark.one_spark("other streams run on both lines; this one differs by its source alone")
def test_a_stream_of_ticks_arrives_while_it_runs(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 200).option("numPartitions", 3).load()
    to = sink("Ticks", namesrv=servers.name_server_addresses, columns={"value": "*"}, value_format="json")
    query = ticks.writeStream.foreachBatch(to).start()
    try:
        messages = servers.wait_messages("Ticks", 300, timeout=ENOUGH)
    finally:
        query.stop()
    assert query.exception() is None
    found = [json.loads(message.body) for message in messages]
    assert all(set(each) == {"timestamp", "value"} for each in found)
    assert len({each["value"] for each in found}) == len(found)


@pytest.mark.one_spark("the example is made of what other tests ask on both lines")
def test_the_example_goes_on_where_it_was(
    spark: SparkSession,
    servers: BlockingLocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from examples import spark_stream  # which imports PySpark, and that may not be here

    inbox, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    inbox.mkdir()
    arguments = [str(inbox), str(checkpoint), "--namesrv", servers.name_server_addresses]
    monkeypatch.setattr("sys.argv", ["spark_stream", *arguments])
    (inbox / "a.txt").write_text("one\ntwo\n\nthree\n", "utf-8")
    spark_stream.main()
    (inbox / "b.txt").write_text("four\n", "utf-8")
    spark_stream.main()
    assert capsys.readouterr().out.splitlines() == [
        "lines sent: 3, empty ones skipped: 1",
        "lines sent: 1, empty ones skipped: 0",
    ]
    assert bodies(servers.messages("Lines")) == ["four", "one", "three", "two"]
    assert len((ROOT / "examples" / "spark_stream.py").read_text("utf-8").splitlines()) < 40


@pytest.mark.one_spark("counts and streams are asked on both lines, each by itself")
def test_two_streams_have_counts_of_their_own(files: Files, servers: BlockingLocalCluster) -> None:
    mine = sink("Mine", namesrv=servers.name_server_addresses, value_format="string", bad_rows="skip")
    other = sink("Other", namesrv=servers.name_server_addresses, value_format="string")
    files.add("a.json", [*values(0, 10), ""])

    def both(rows: DataFrame, batch_id: int) -> None:
        rows.persist()
        mine(rows, batch_id)
        other(rows.where("value <> ''"), batch_id)
        rows.unpersist()

    files.run(both)
    assert (mine.counts.sent, mine.counts.skipped) == (10, 1)
    assert (other.counts.sent, other.counts.skipped) == (10, 0)
    assert len(servers.wait_messages("Mine", 10)) == len(servers.wait_messages("Other", 10)) == 10
    assert {provenance_of(message) for message in servers.messages("Mine")} == {None}
