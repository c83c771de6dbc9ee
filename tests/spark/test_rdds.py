"""RDDs of messages through Spark: what was sent is read once, by foreachPartition and over a shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy import ConfigError, MessageExt, MessageQueue
from rocketpy.spark import OffsetRange, commit_offsets, offset_ranges, rdd
from rocketpy.sync import Message, Producer, PullConsumer
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = 600


def fill(servers: BlockingLocalCluster, topic: str, *numbers: int) -> None:
    with Producer("spark-rdd-tests", namesrv=servers.name_server_addresses) as producer:
        for first in range(0, len(numbers), 25):  # a few at a time, so that all queues get some
            some = numbers[first : first + 25]
            tags = {number: "odd" if number % 2 else "even" for number in some}
            producer.send_many([Message(topic, b"%d" % each, keys=[f"k{each}"], tags=tags[each]) for each in some])


def test_messages_are_read_once(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    """Tasks and their messages go over to the workers and back."""
    fill(servers, topic, *range(MANY))
    context, namesrv = spark.sparkContext, servers.name_server_addresses
    messages = rdd(context, topic, namesrv=namesrv, min_partitions=8)
    assert messages.getNumPartitions() == 8
    found = messages.collect()
    stored = {(each.queue_id, each.queue_offset): each for each in servers.messages(topic)}
    assert len(found) == len(stored) == MANY
    for message in found:
        assert isinstance(message, MessageExt)
        there = stored[message.queue_id, message.queue_offset]
        assert (message.body, message.keys, message.tags) == (there.body, there.keys, there.tags)
        assert (message.message_id, message.store_timestamp) == (there.message_id, there.store_timestamp)
    by_tag = messages.map(lambda message: (message.tags, 1)).reduceByKey(lambda one, other: one + other)
    assert dict(by_tag.collect()) == {"even": MANY // 2, "odd": MANY // 2}
    assert len(messages.take(3)) == 3
    # The ranges are fixed: what arrives later is not part of it.
    fill(servers, topic, MANY)
    assert messages.count() == MANY


def test_a_loop_over_what_arrives(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    """Every round goes on where the group is; a round that fails is worked off again."""
    context, group = spark.sparkContext, f"loop-{topic}"
    settings: Any = {"namesrv": servers.name_server_addresses, "group": group, "start": "committed"}
    seen = context.accumulator(0)

    def work(messages: Iterable[MessageExt]) -> None:
        seen.add(sum(int(message.value) for message in messages))

    def breaks(_messages: Iterable[MessageExt]) -> Iterator[None]:
        raise RuntimeError("the work is broken")

    fill(servers, topic, *range(100))
    first = rdd(context, topic, **settings)
    first.foreachPartition(work)
    commit_offsets(first)
    assert seen.value == sum(range(100))
    fill(servers, topic, *range(100, 150))
    with pytest.raises(Exception, match="the work is broken"):
        rdd(context, topic, **settings).mapPartitions(breaks).count()
    second = rdd(context, topic, **settings)
    second.foreachPartition(work)
    assert seen.value == sum(range(150))
    ranges = offset_ranges(second)
    assert sum(each.size for each in ranges) == 50
    assert len(ranges) == 4
    commit_offsets(second)
    with PullConsumer(group, namesrv=servers.name_server_addresses) as consumer:
        assert {each.queue: consumer.fetch_consume_offset(each.queue) or 0 for each in ranges} == {
            each.queue: each.until for each in ranges
        }
    nothing = rdd(context, topic, **settings)
    assert (nothing.getNumPartitions(), nothing.count(), len(offset_ranges(nothing))) == (0, 0, 4)


def test_the_example(
    spark: SparkSession,
    servers: BlockingLocalCluster,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from examples import spark_rdd

    monkeypatch.setattr("sys.argv", ["spark_rdd", topic, "--group", topic, "--namesrv", servers.name_server_addresses])
    fill(servers, topic, 1, 2)
    spark_rdd.main()
    assert "2 offsets in 1 partitions" in capsys.readouterr().out
    spark_rdd.main()
    assert "0 offsets in 0 partitions" in capsys.readouterr().out


def test_mistakes_are_said_on_the_driver(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    context, namesrv = spark.sparkContext, servers.name_server_addresses
    beyond = OffsetRange(MessageQueue(topic, "broker-a", 0), 0, 9)
    with pytest.raises(ConfigError, match="topics has offset 9"):
        rdd(context, [beyond], namesrv=namesrv)
    with pytest.raises(ConfigError, match="not one that was made from it, such as by map"):
        offset_ranges(rdd(context, topic, namesrv=namesrv).map(str))
    with pytest.raises(ConfigError, match="rdd needs a SparkContext"):
        rdd(spark, topic, namesrv=namesrv)
