"""Rows of DataFrames and RDDs through one sink: every one is a message at the broker when the job has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

from rocketpy.spark import sink
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000


def sent(servers: BlockingLocalCluster, topic: str) -> dict[str, str]:
    """The bodies at the broker by their key; a row sent twice is a failure."""
    messages = servers.messages(topic)
    found = {" ".join(message.keys): message.body.decode() for message in messages}
    assert len(found) == len(messages)
    return found


def test_every_row_of_a_frame_is_a_message(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    frame = spark.range(ROWS).selectExpr("concat('k', id) AS keys", "concat('row ', id) AS value").repartition(3)
    written = sink(topic, namesrv=servers.name_server_addresses, value_format="string")
    frame.foreachPartition(written)
    assert sent(servers, topic) == {f"k{number}": f"row {number}" for number in range(ROWS)}
    assert written.counts.sent == ROWS
    assert written.counts.bytes == sum(len(f"row {number}") for number in range(ROWS))
    assert (written.counts.failed, written.counts.skipped) == (0, 0)


def test_every_row_of_an_rdd_is_a_message(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    rows = [{"order": f"k{number}", "text": f"row {number}".encode()} for number in range(ROWS)]
    written = sink(topic, namesrv=servers.name_server_addresses, columns={"keys": "order", "value": "text"})
    spark.sparkContext.parallelize(rows, 3).foreachPartition(written)
    assert sent(servers, topic) == {f"k{number}": f"row {number}" for number in range(ROWS)}
    assert written.counts.sent == ROWS


@pytest.mark.one_spark("an iterator without rows is the same to a sink on both lines")
@pytest.mark.parametrize("partitions", [1, 8])
def test_partitions_without_rows_send_nothing(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, partitions: int
) -> None:
    written = sink(topic, namesrv="127.0.0.1:1")  # no server there: an empty partition looks for none
    spark.sparkContext.parallelize([], partitions).foreachPartition(written)
    spark.range(0).selectExpr("'v' AS value").repartition(partitions).foreachPartition(written)
    assert servers.messages(topic) == []
    assert written.counts.sent == 0


@pytest.mark.one_spark("an iterator without rows is the same to a sink on both lines")
def test_empty_partitions_stand_beside_full_ones(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str
) -> None:
    written = sink(topic, namesrv=servers.name_server_addresses)
    spark.sparkContext.parallelize([{"value": b"one", "keys": "k"}], 6).foreachPartition(written)
    assert sent(servers, topic) == {"k": "one"}


def test_a_worker_spares_its_garbage_collector_what_is_there_for_good(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str
) -> None:
    written = sink(topic, namesrv=servers.name_server_addresses)

    def left_alone(rows: Iterable[object]) -> Iterator[int]:
        written(rows)
        yield gc.get_freeze_count()

    (count,) = spark.sparkContext.parallelize([{"value": b"one"}], 1).mapPartitions(left_alone).collect()
    assert count > 1000
