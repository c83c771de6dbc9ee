"""What a task had sent before it failed is sent again, and every message says of which row it is the repetition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.spark import provenance_of, sink
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000


def failing_once(rows: Iterable[Any]) -> Iterator[Any]:
    """The rows; the first task that gets to the last of one partition fails before it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for row in rows:
        if row["keys"] == f"k{ROWS - 1}" and context.attemptNumber() == 0:
            raise RuntimeError("as a machine that goes away")
        yield row


def test_origins_tell_repetitions_from_new_rows(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    rows = [{"keys": f"k{number}", "value": f"row {number}".encode()} for number in range(ROWS)]
    written = sink(topic, namesrv=servers.name_server_addresses, provenance=True, batch_size=50)
    spark.sparkContext.parallelize(rows, 2).mapPartitions(failing_once).foreachPartition(written)

    found = defaultdict(set)
    messages = servers.messages(topic)
    for message in messages:
        found[provenance_of(message)].add((message.keys, message.body))
    assert len(messages) > ROWS  # some were sent twice
    assert None not in found
    assert len(found) == ROWS
    assert all(len(same) == 1 for same in found.values())
    assert {body for same in found.values() for _, body in same} == {row["value"] for row in rows}


@pytest.mark.one_spark("the numbers of stages are asked on both lines where tasks fail and batches come again")
def test_two_writes_of_one_sink_are_no_repetitions(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str
) -> None:
    frame = spark.range(10).selectExpr("concat('row ', id) AS value")
    written = sink(topic, namesrv=servers.name_server_addresses, value_format="string", provenance=True)
    frame.foreachPartition(written)
    frame.foreachPartition(written)
    origins = [provenance_of(message) for message in servers.messages(topic)]
    assert None not in origins
    assert len(set(origins)) == len(origins) == 20


@pytest.mark.one_spark("the parts are counted by the sink, without Spark")
def test_a_partition_that_is_given_in_parts_repeats_nothing(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str
) -> None:
    written = sink(topic, namesrv=servers.name_server_addresses, provenance=True)

    def in_parts(rows: Iterable[Any]) -> None:
        row = list(rows)
        written(row[:30])
        written(row[30:])

    rows = [{"value": f"row {number}".encode()} for number in range(100)]
    spark.sparkContext.parallelize(rows, 2).foreachPartition(in_parts)
    found = {provenance_of(message): message.body for message in servers.messages(topic)}
    assert None not in found
    assert sorted(found.values()) == sorted(row["value"] for row in rows)
    assert {(origin.partition, origin.row) for origin in found if origin is not None} == {
        (partition, number) for partition in range(2) for number in range(1, 51)
    }
    assert written.counts.sent == 100
