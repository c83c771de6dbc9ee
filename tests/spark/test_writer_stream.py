"""Streams through Spark: every row is sent, over restarts too, and a query that cannot go on says why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.spark import provenance_of
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.test_errors_seen import error_of, last_word

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")

ENOUGH = 90


class Lines:
    """A directory whose lines are sent to a topic."""

    def __init__(self, spark: SparkSession, servers: BlockingLocalCluster, topic: str, folder: Path) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        self._spark = spark
        self._given = {"namesrv": servers.name_server_addresses, "topic": topic}
        self._checkpoint = folder / "checkpoint"

    def add(self, *lines: str) -> None:
        number = len(list(self.folder.iterdir()))
        (self.folder / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def frame(self) -> DataFrame:
        return self._spark.readStream.text(str(self.folder))

    def send(
        self, frame: DataFrame | None = None, *, name: str = "rocketmq", mode: str = "append", **more: Any
    ) -> None:
        """Send what is there and not yet sent, in one query."""
        stream = (frame or self.frame()).writeStream.format(name).outputMode(mode).options(**self._given, **more)
        query = stream.option("checkpointLocation", str(self._checkpoint)).queryName("lines")
        assert query.trigger(availableNow=True).start().awaitTermination(ENOUGH)


@pytest.fixture
def lines(spark: SparkSession, servers: BlockingLocalCluster, topic: str, tmp_path: Path) -> Lines:
    return Lines(spark, servers, topic, tmp_path)


def test_a_query_goes_on_where_its_checkpoint_ends(lines: Lines, servers: BlockingLocalCluster, topic: str) -> None:
    lines.add("a", "b")
    lines.send(provenance="true")
    lines.add("c")
    lines.send(provenance="true")
    messages = servers.wait_messages(topic, 3)
    assert sorted(each.body for each in messages) == [b"a", b"b", b"c"]
    origins = {each.body: provenance_of(each) for each in messages}
    batches = {body: (origin.step, origin.streamed) for body, origin in origins.items() if origin is not None}
    assert batches == {b"a": (0, True), b"b": (0, True), b"c": (1, True)}
    assert len({origin.source for origin in origins.values() if origin is not None}) == 1


def test_a_batch_that_is_run_again_has_the_same_origins(
    lines: Lines, servers: BlockingLocalCluster, topic: str
) -> None:
    """As if the driver had died before Spark wrote down that the micro-batch is done."""
    lines.add("a", "b")
    lines.send(provenance="true")
    for path in (lines._checkpoint / "commits").iterdir():
        if path.name.lstrip(".").startswith("0"):
            path.unlink()
    lines.send(provenance="true")
    messages = servers.wait_messages(topic, 4)
    assert len(messages) == 4
    assert len({(each.body, provenance_of(each)) for each in messages}) == 2


def test_a_bad_row_ends_the_query_and_is_named(lines: Lines, servers: BlockingLocalCluster, topic: str) -> None:
    lines.add("a", "", "c")
    text = error_of(lines.send)
    assert last_word(text).startswith("row 2 of partition 0: the value is empty")
    lines.send(badRows="skip")
    assert {each.body for each in servers.messages(topic)} == {b"a", b"c"}


def test_mistakes_are_said_on_the_driver(lines: Lines) -> None:
    lines.add("a")
    with pytest.raises(Exception, match="did you mean topic"):
        lines.send(topik="x")
    totals = lines.frame().groupBy("value").count()
    with pytest.raises(Exception, match="every micro-batch replaces"):
        lines.send(totals, mode="complete")
    with pytest.raises(Exception, match="does not support Update mode"):
        lines.send(totals, mode="update")


def test_rows_are_sent_where_there_are_no_record_batches(
    spark: SparkSession, lines: Lines, servers: BlockingLocalCluster, topic: str
) -> None:
    """PySpark 4.0 gives streams rows."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamWriter

    class OnlyRows(DataSource):
        @classmethod
        def name(cls) -> str:
            return "rocketmq-rows"

        def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
            from rocketpy.spark.writer.entry import checked_write
            from rocketpy.spark.writer.spark_classes import RowStreamWriter

            return RowStreamWriter(checked_write(self.options, schema.jsonValue(), streamed=True))

    spark.dataSource.register(OnlyRows)
    lines.add("a", "b")
    lines.send(name="rocketmq-rows", provenance="true")
    messages = servers.wait_messages(topic, 2)
    assert {each.body for each in messages} == {b"a", b"b"}
    assert {each.properties["SPARK_BID"] for each in messages} == {"0"}


def test_the_example(
    lines: Lines, servers: BlockingLocalCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from examples import spark_write

    lines.add("a", "", "b")
    arguments = ["spark_write", topic, "--namesrv", servers.name_server_addresses]
    monkeypatch.setattr(sys, "argv", [*arguments, "--stream", str(lines.folder), str(tmp_path / "other")])
    spark_write.main()
    assert {each.body for each in servers.wait_messages(topic, 2)} == {b"a", b"b"}
