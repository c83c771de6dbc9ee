"""The Spark sink on Apache's servers: their consumer gets every row, as what its columns say."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rocketpy.message import PropertyName
from rocketpy.spark import sink
from tests.interop import lines
from tests.interop.drivers import JavaPushConsumer, java_push_consumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.interop.drivers import Event
    from tests.spark.conftest import Theirs

pytestmark = [
    pytest.mark.interop,
    pytest.mark.one_spark("asks what Apache's brokers take; what rows become is asked on both lines without them"),
]

TOPIC = "From-spark"
QUEUES = 4
MANY = 5000


class Watched(NamedTuple):
    """Apache's consumer of the topic that all tests here send to."""

    line: str
    namesrv: str
    consumer: JavaPushConsumer

    def of(self, tags: str, count: int = 1) -> list[Event]:
        """The deliveries with this tag, once there are so many, by place."""

        def found() -> list[Event] | None:
            messages = [each for each in self.consumer.messages if each["tags"] == tags]
            return messages if len(messages) >= count else None

        messages = self.consumer.process.wait_until(found, f"{count} messages with the tag {tags}", 60.0)
        assert len(messages) == count
        return sorted(messages, key=lambda each: (each["queueId"], each["queueOffset"]))


@pytest.fixture(scope="module")
def watched(theirs: Theirs) -> Iterator[Watched]:
    """Servers of a line, with their own consumer."""
    apache, cluster = theirs
    cluster.create_topic(TOPIC, queues=QUEUES)
    with java_push_consumer(apache, cluster.namesrv, "from-spark", TOPIC) as consumer:
        yield Watched(apache.version, cluster.namesrv, consumer)


def body(message: Event) -> bytes:
    return base64.b64decode(message["body"])


def test_all_rows_of_a_dataframe_arrive_once(spark: SparkSession, watched: Watched) -> None:
    rows = spark.sql(
        f"""select 'rows' as tags, concat('row-', id) as keys, map('Größe', concat(id, ' µm')) as properties,
                   id as number, repeat('x', cast(id % 300 as int)) as filling from range(0, {MANY}, 1, 4)"""
    )
    columns = {"value": "*", "tags": "tags", "keys": "keys", "properties": "properties"}
    to = sink(TOPIC, namesrv=watched.namesrv, columns=columns, value_format="json", provenance=True, batch_size=64)
    rows.foreachPartition(to)
    assert (to.counts.sent, to.counts.failed, to.counts.skipped) == (MANY, 0, 0)
    messages = watched.of("rows", MANY)
    found = {}
    for message in messages:
        value = json.loads(body(message))
        number = value["number"]
        found[number] = message
        assert value["filling"] == "x" * (number % 300)
        assert (message["keys"], message["properties"]["Größe"]) == (f"row-{number}", f"{number} µm")
    assert sorted(found) == list(range(MANY))
    assert {message["queueId"] for message in messages} == set(range(QUEUES))
    origins = {(each["properties"]["SPARK_PART"], each["properties"]["SPARK_SEQ"]) for each in messages}
    assert len(origins) == MANY
    assert len({each["properties"]["SPARK_APP"] for each in messages}) == 1


def test_rows_of_one_sharding_key_stay_in_order(spark: SparkSession, watched: Watched) -> None:
    rows = spark.sql(
        """select 'shards' as tags, cast(id as string) as value, concat('carrier-', id % 5) as sharding_key
           from range(0, 1000, 1, 1)"""
    )
    rows.foreachPartition(sink(TOPIC, namesrv=watched.namesrv, value_format="string", batch_size=16))
    messages = watched.of("shards", 1000)
    for number in range(5):
        of_one = [each for each in messages if each["properties"]["__SHARDINGKEY"] == f"carrier-{number}"]
        assert len({each["queueId"] for each in of_one}) == 1
        assert [int(body(each)) for each in of_one] == list(range(number, 1000, 5))


def test_a_level_delays_a_row_among_others(spark: SparkSession, watched: Watched) -> None:
    rows = spark.sql(
        """select 'levels' as tags, cast(id as string) as value, if(id = 3, 1, 0) as delay_level
           from range(0, 6, 1, 1)"""
    )
    rows.foreachPartition(sink(TOPIC, namesrv=watched.namesrv, value_format="string"))
    messages = {int(body(each)): each for each in watched.of("levels", 6)}
    assert sorted(messages) == list(range(6))
    # What the broker has held back says which topic it was for.
    assert [number for number, each in messages.items() if PropertyName.REAL_TOPIC in each["properties"]] == [3]
    waited = messages[3]["storeTimestamp"] - messages[3]["bornTimestamp"]
    assert waited >= 900  # a second by the broker's table; the stored copy is the one that was put back


def test_a_moment_delays_a_row_until_then(spark: SparkSession, watched: Watched) -> None:
    if watched.line == lines.OLDER:  # it has no timer, and would deliver at once whatever moment a message names
        rows = spark.sql("select 'then' as value, timestamp_millis(4102444800000) as deliver_at")
        with pytest.raises(Exception, match=r"RowError: row 1 of partition 0.*is older than RocketMQ 5"):
            rows.foreachPartition(sink(TOPIC, namesrv=watched.namesrv, value_format="string"))
        return
    for seconds in (4, 16, 40):  # later where the machine is so busy that the moment has passed before it is sent
        due, tag = round((time.time() + seconds) * 1000), f"in-{seconds}"
        rows = spark.sql(f"select '{tag}' as tags, 'then' as value, timestamp_millis({due}) as deliver_at")
        rows.foreachPartition(sink(TOPIC, namesrv=watched.namesrv, value_format="string"))
        (message,) = watched.of(tag)
        assert body(message) == b"then"
        if message["bornTimestamp"] < due - 2000:
            break
    assert message["storeTimestamp"] >= due - 1000


def test_a_refusal_of_apaches_broker_names_the_row(spark: SparkSession, watched: Watched) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    rows = spark.sql("select repeat('0123456789', 500000) as value, 'AA-1' as keys")
    more = 2**23  # than the broker takes, and nothing is compressed that is smaller
    limits = {"max_message_size": more, "compress_body_over": more}
    to = sink(TOPIC, namesrv=watched.namesrv, value_format="string", **limits)
    with pytest.raises((PySparkException, Py4JJavaError), match=r"RowError: row 1 of partition 0 \(keys 'AA-1'\)"):
        rows.foreachPartition(to)
