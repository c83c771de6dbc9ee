"""The counts of a sink on the driver: Spark's accumulators, whatever ran the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocketpy.spark import sink
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.one_spark("no task of Spark runs")
def test_nothing_is_counted_before_anything_ran(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    counts = sink("Counted", namesrv=servers.name_server_addresses).counts
    assert (counts.sent, counts.failed, counts.skipped, counts.bytes) == (0, 0, 0, 0)


def test_what_a_dataframe_sent_and_skipped_is_counted(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    rows = spark.sql("select if(id % 10 = 0, null, 'five!') as value from range(0, 1000, 1, 8)")
    to = sink("Counted", namesrv=servers.name_server_addresses, value_format="string", bad_rows="skip")
    rows.foreachPartition(to)
    assert (to.counts.sent, to.counts.failed, to.counts.skipped, to.counts.bytes) == (900, 0, 100, 4500)
    rows.foreachPartition(to)
    assert (to.counts.sent, to.counts.failed, to.counts.skipped, to.counts.bytes) == (1800, 0, 200, 9000)
    assert len(servers.wait_messages("Counted", 1800)) == 1800


def test_what_an_rdd_of_plain_values_sent_is_counted(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    rows = spark.sparkContext.parallelize([{"value": b"ab", "keys": f"k{n}"} for n in range(30)], 3)
    to = sink("Dicts", namesrv=servers.name_server_addresses)
    rows.foreachPartition(to)
    assert (to.counts.sent, to.counts.bytes) == (30, 60)
    assert {message.keys for message in servers.wait_messages("Dicts", 30)} == {(f"k{n}",) for n in range(30)}


@pytest.mark.one_spark("what is counted is ours; that accumulators add up is asked on both lines")
def test_sends_that_are_given_up_are_counted_on_request(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    rows = spark.createDataFrame([("short",), ("x" * 6000,), ("brief",)], "value string").coalesce(1)
    to = sink(
        "Given-up",
        namesrv=servers.name_server_addresses,
        value_format="string",
        failed_sends="count",
        max_message_size=4096,
    )
    rows.foreachPartition(to)
    assert (to.counts.sent, to.counts.failed, to.counts.skipped, to.counts.bytes) == (2, 1, 0, 10)
    assert {message.body for message in servers.wait_messages("Given-up", 2)} == {b"short", b"brief"}


@pytest.mark.one_spark("each has accumulators of its own on the driver, whichever Spark it is")
def test_two_sinks_count_apart(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    one = sink("One", namesrv=servers.name_server_addresses, value_format="string")
    two = sink("Two", namesrv=servers.name_server_addresses, value_format="string")
    spark.sql("select 'x' as value from range(3)").foreachPartition(one)
    spark.sql("select 'x' as value from range(4)").foreachPartition(two)
    assert (one.counts.sent, two.counts.sent) == (3, 4)
