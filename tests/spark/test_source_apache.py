"""The Spark source on Apache's servers: what was written is read by offset, time and tag, as a batch and a stream."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.message import MessageQueue
from rocketpy.spark import commit_offsets, offset_ranges, rdd
from rocketpy.sync import Message, Producer, PullConsumer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from tests.spark.conftest import Theirs

pytestmark = [
    pytest.mark.interop,
    pytest.mark.one_spark("PySpark 3.5 has no data sources in Python"),
    pytest.mark.waits("Apache's broker stamps messages with the time of this machine"),
]

TOPIC = "To-spark"
MANY = 3000


class Written:
    """A topic with messages on servers of a line."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv
        with Producer("spark-source-apache", namesrv=namesrv) as producer:
            for start in range(0, MANY, 100):
                producer.send_many([self._message(number) for number in range(start, start + 100)])
            time.sleep(0.05)
            self.middle = round(time.time() * 1000)
            time.sleep(0.05)
            producer.send_many([Message(TOPIC, b"late", tags="late")])

    @staticmethod
    def _message(number: int) -> Message:
        tag = "rare" if number % 500 == 0 else "usual"
        return Message(TOPIC, b"%d" % number, tags=tag, keys=[f"k{number}"], properties={"n": str(number % 10)})


@pytest.fixture(scope="module")
def written(theirs: Theirs) -> Written:
    theirs.cluster.create_topic(TOPIC, queues=4)
    return Written(theirs.cluster.namesrv)


@pytest.fixture
def load(spark: SparkSession, written: Written) -> Any:
    def load(**options: Any) -> DataFrame:
        given = {"namesrv": written.namesrv, "subscribe": TOPIC, "valueFormat": "string"}
        return spark.read.format("rocketmq").options(**given, **options).load()

    return load


def numbers(rows: list[Row]) -> list[int]:
    return sorted(int(row.value) for row in rows if row.value != "late")


def test_everything_is_read_once(load: Any) -> None:
    rows = load(minPartitions=7).collect()
    assert numbers(rows) == list(range(MANY))
    assert len({(row.queue_id, row.offset) for row in rows}) == len(rows) == MANY + 1
    for row in rows:
        if row.value != "late":
            assert (row["keys"], row.properties) == ([f"k{row.value}"], {"n": row.value[-1]})
    assert len({row.message_id for row in rows}) == len(rows)


def test_tags_are_filtered_there(load: Any) -> None:
    assert numbers(load(tags="rare || none").collect()) == list(range(0, MANY, 500))


def test_expressions_are_evaluated_there(load: Any) -> None:
    rows = load(sql="TAGS = 'usual' AND n = '7'").collect()
    assert numbers(rows) == [number for number in range(MANY) if number % 10 == 7]
    assert {(row.tags, row.properties["n"]) for row in rows} == {("usual", "7")}


def test_times(load: Any, written: Written) -> None:
    late = {"startingTimestamp": written.middle, "startingOffsetsByTimestampStrategy": "latest"}
    # Brokers of RocketMQ 4 name the message that is nearest to the time, which may be the one before.
    assert [row.value for row in load(**late).collect() if row.timestamp.timestamp() * 1000 >= written.middle] == [
        "late"
    ]
    early = load(endingTimestamp=written.middle).collect()
    assert len(early) >= MANY - 4
    assert "late" not in {row.value for row in early}


def test_offsets_beyond_the_queue_are_refused(load: Any) -> None:
    with pytest.raises(Exception, match=r"has offset 999999 for .*, which ends at"):
        load(startingOffsets=json.dumps({TOPIC: {"broker-a": {"0": 999999}}})).collect()


def test_a_stream_reads_it_in_limited_batches(spark: SparkSession, written: Written, tmp_path: Path) -> None:
    given = {
        "namesrv": written.namesrv,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "consumerGroup": "spark-lag",
    }
    stream = spark.readStream.format("rocketmq").options(**given, maxOffsetsPerTrigger=1000).load()
    seen: list[list[tuple[int, int]]] = []

    def take(frame: DataFrame, _: int) -> None:
        seen.append([(row.queue_id, row.offset) for row in frame.select("queue_id", "offset").collect()])

    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert [len(batch) for batch in seen] == [1000, 1000, 1000, 1]
    assert len({each for batch in seen for each in batch}) == MANY + 1
    with PullConsumer("spark-lag", namesrv=written.namesrv) as consumer:
        queues = consumer.fetch_message_queues(TOPIC)
        committed = [consumer.fetch_consume_offset(queue) for queue in queues]
    assert sum(offset or 0 for offset in committed) == MANY


def test_a_queue_that_is_not_there(load: Any) -> None:
    queue = MessageQueue(TOPIC, "broker-z", 0)
    with pytest.raises(Exception, match=f"{queue}, which is not read"):
        load(startingOffsets=json.dumps({TOPIC: {"broker-z": {"0": 1}}})).collect()


def test_an_rdd_is_read_and_committed(spark: SparkSession, written: Written) -> None:
    given: Any = {"namesrv": written.namesrv, "group": "rdd-of-apache", "start": "committed"}
    messages = rdd(spark.sparkContext, TOPIC, min_partitions=8, **given)
    ranges = offset_ranges(messages)
    found = messages.map(lambda message: (message.queue_id, message.queue_offset, message.body)).collect()
    assert sorted(int(body) for *_, body in found if body != b"late") == list(range(MANY))
    assert {(queue, offset) for queue, offset, _ in found} == {
        (each.queue.queue_id, offset) for each in ranges for offset in range(each.start, each.until)
    }
    commit_offsets(messages)
    with PullConsumer("rdd-of-apache", namesrv=written.namesrv) as consumer:
        for each in ranges:
            assert consumer.fetch_consume_offset(each.queue) == each.until
    assert rdd(spark.sparkContext, TOPIC, **given).getNumPartitions() == 0
