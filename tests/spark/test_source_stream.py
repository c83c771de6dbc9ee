"""Streams through Spark: nothing is lost or read twice over restarts, and a query that cannot go on says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.message import MessageQueue
from rocketpy.sync import Message, Producer, PullConsumer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.source.deleting import delete_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")


class Stream:
    """Streams of one topic with one checkpoint, and the values that their micro-batches had."""

    def __init__(self, spark: SparkSession, servers: BlockingLocalCluster, topic: str, folder: Path) -> None:
        self.namesrv = servers.name_server_addresses
        self.topic = topic
        self.batches: list[list[bytes]] = []
        self.broken = False
        self._spark = spark
        self._checkpoint = folder / "checkpoint"

    def send(self, *bodies: bytes) -> None:
        with Producer("spark-stream-tests", namesrv=self.namesrv) as producer:
            for body in bodies:
                producer.send(Message(self.topic, body), queue=MessageQueue(self.topic, "broker-a", 0))

    def start(self, **options: Any) -> StreamingQuery:
        """A query that goes on from the checkpoint."""
        reader = self._spark.readStream.format("rocketmq").options(namesrv=self.namesrv, subscribe=self.topic)
        writer = reader.options(**options).load().writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", str(self._checkpoint)).start()

    def run_available(self, name: str = "rocketmq", **options: Any) -> None:
        """Everything that there is now, in one query."""
        reader = self._spark.readStream.format(name).options(namesrv=self.namesrv, subscribe=self.topic)
        writer = reader.options(**options).load().writeStream.foreachBatch(self._take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        query.awaitTermination()

    def _take(self, frame: DataFrame, _: int) -> None:
        if self.broken:
            raise RuntimeError("the sink is broken")
        self.batches.append(sorted(row.value for row in frame.select("value").collect()))

    @property
    def values(self) -> list[bytes]:
        return sorted(value for batch in self.batches for value in batch)


@pytest.fixture
def stream(spark: SparkSession, servers: BlockingLocalCluster, topic: str, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(spark, servers, topic, tmp_path)
    yield made
    for query in spark.streams.active:
        query.stop()


def run(query: StreamingQuery, until: Callable[[], bool]) -> None:
    """Let a query run until something is so, and stop it."""
    for _ in range(300):
        if until():
            break
        query.processAllAvailable()
    query.stop()
    assert until()


def test_a_query_goes_on_where_its_checkpoint_ends(stream: Stream) -> None:
    stream.send(b"1", b"2")
    run(stream.start(startingOffsets="earliest"), lambda: stream.values == [b"1", b"2"])
    stream.send(b"3")
    run(stream.start(startingOffsets="earliest"), lambda: stream.values == [b"1", b"2", b"3"])


def test_the_start_survives_a_crash_in_the_first_batch(stream: Stream) -> None:
    stream.send(b"before")
    stream.broken = True
    query = stream.start()
    with pytest.raises(Exception, match="the sink is broken"):
        query.awaitTermination(60)
    stream.send(b"1", b"2")  # "latest" is behind these by the time of the second start
    stream.broken = False
    run(stream.start(), lambda: stream.values == [b"1", b"2"])


def test_limited_batches_until_everything_is_read(stream: Stream) -> None:
    stream.send(*[b"%d" % number for number in range(10)])
    group = f"lag-{stream.topic}"
    stream.run_available(startingOffsets="earliest", maxOffsetsPerTrigger=4, consumerGroup=group)
    assert [len(batch) for batch in stream.batches] == [4, 4, 2]
    assert len(set(stream.values)) == 10
    with PullConsumer(group, namesrv=stream.namesrv) as consumer:  # the last batch is committed by a later query
        assert consumer.fetch_consume_offset(MessageQueue(stream.topic, "broker-a", 0)) == 8


def test_available_now_without_the_api_of_4_2(spark: SparkSession, stream: Stream) -> None:
    """PySpark 4.0 and 4.1 ask for an end without a start; with the wrapper, even before they show their checkpoint."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader

    class Older(DataSource):
        @classmethod
        def name(cls) -> str:
            return "rocketmq-older"

        def schema(self) -> str:
            from rocketpy.spark.source.entry import schema_of

            return schema_of(self.options)

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            from rocketpy.spark.source.entry import stream_reader

            reader: Any = stream_reader(self.options, schema)

            class OlderReader(DataSourceStreamReader):
                initialOffset, partitions, read, commit = (
                    staticmethod(each) for each in (reader.initialOffset, reader.partitions, reader.read, reader.commit)
                )

                def latestOffset(self) -> dict[str, Any]:
                    found: dict[str, Any] = reader.latestOffset()
                    return found

            return OlderReader()

    spark.dataSource.register(Older)
    setting = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    try:
        for run, wrapper in enumerate(("false", "true", "false")):
            spark.conf.set(setting, wrapper)
            stream.send(*[b"%d" % (5 * run + number) for number in range(5)])
            stream.run_available("rocketmq-older", startingOffsets="earliest", maxOffsetsPerTrigger=2)
    finally:
        spark.conf.unset(setting)
    assert [len(batch) for batch in stream.batches] == [5, 5, 5]
    assert len(set(stream.values)) == 15


def test_the_progress_shows_offsets(stream: Stream) -> None:
    stream.send(b"1", b"2")
    query = stream.start(startingOffsets="earliest")
    query.processAllAvailable()
    shown = [json.loads(progress["sources"][0]["endOffset"]) for progress in map(as_dict, query.recentProgress)]
    query.stop()
    assert shown[0][stream.topic]["broker-a"]["0"] == 2


def as_dict(progress: Any) -> dict[str, Any]:
    return progress if isinstance(progress, dict) else json.loads(progress.json)


def test_a_topic_that_is_deleted_and_made_again(stream: Stream, servers: BlockingLocalCluster) -> None:
    stream.send(b"1", b"2")
    run(stream.start(startingOffsets="earliest"), lambda: len(stream.values) == 2)
    delete_topic(servers, stream.topic)
    servers.create_topic(stream.topic, queues=4)
    stream.send(b"new")
    with pytest.raises(Exception, match=r"from offset 1 to 2 are gone: .*deleted and created again.*failOnDataLoss"):
        stream.start(startingOffsets="earliest").processAllAvailable()
    run(stream.start(failOnDataLoss="false"), lambda: stream.values == [b"1", b"2", b"new"])


def test_mistakes_are_said_on_the_driver(stream: Stream) -> None:
    with pytest.raises(Exception, match="has no end"):
        stream.start(endingOffsets="latest").processAllAvailable()
