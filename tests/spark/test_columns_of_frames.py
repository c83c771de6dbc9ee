"""Columns of a real DataFrame hold what the rules of columns expect, however Spark's types look in Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.spark.rows import BadRow, RowMapping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Sent = tuple[str, bytes, dict[str, str]]


def messages(frame: DataFrame, **settings: Any) -> list[Sent]:
    """What executors make of the rows of a frame."""
    mapping = RowMapping(**settings)

    def made(rows: Iterable[Any]) -> Iterator[Sent]:
        to_message = mapping.to_message()
        for row in rows:
            message = to_message(row)
            assert message is not None
            yield message.topic, message.body, message.wire_properties

    return frame.rdd.mapPartitions(made).collect()


def test_every_part_of_a_message_can_come_from_a_frame(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 'Orders' topic, cast('paid' as binary) value, 17 tags, array('AA-1', null, 'AA-2') keys, "
        "map('carrier', 'UA', 'gate', null) properties, cast(2.50 as decimal(5, 2)) sharding_key, "
        "cast(3 as tinyint) delay_level, cast(null as timestamp) deliver_at, false wait_store_ok"
    )
    ((topic, body, properties),) = messages(frame)
    assert (topic, body) == ("Orders", b"paid")
    assert properties == {
        "WAIT": "false", "TAGS": "17", "KEYS": "AA-1 AA-2", "carrier": "UA", "__SHARDINGKEY": "2.50", "DELAY": "3",
    }  # fmt: skip


def test_columns_that_are_null_are_no_parts(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 'paid' value, cast(null as string) tags, cast(null as array<string>) keys, "
        "cast(null as map<string, string>) properties, cast(null as string) sharding_key, "
        "cast(null as int) delay_level, cast(null as timestamp) deliver_at, cast(null as boolean) wait_store_ok"
    )
    assert messages(frame, topic="Orders", value_format="string") == [("Orders", b"paid", {"WAIT": "true"})]


def test_a_struct_holds_properties(spark: SparkSession) -> None:
    frame = spark.sql("select 'x' value, struct('UA' as carrier, 2013 as year, date'2013-01-02' as day) properties")
    ((_, _, properties),) = messages(frame, topic="Orders", value_format="string")
    assert properties == {"WAIT": "true", "carrier": "UA", "year": "2013", "day": "2013-01-02"}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_a_timestamp_is_the_same_moment_in_every_time_zone(spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.sql("select 'x' value, timestamp_millis(1795336200123) deliver_at")
        ((_, _, properties),) = messages(frame, topic="Orders", value_format="string")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert properties["TIMER_DELIVER_MS"] == "1795336200123"


def test_the_whole_row_is_json(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 1 id, 'UA' carrier, named_struct('a', array(1, null)) nested, map('k', 1.5d) numbers, "
        "cast(1.50 as decimal(5, 2)) price, date'2013-01-02' day, cast(null as string) tail"
    )
    ((_, body, properties),) = messages(
        frame, topic="Flights", columns={"value": "*", "keys": "id"}, value_format="json"
    )
    assert json.loads(body) == {
        "id": 1, "carrier": "UA", "nested": {"a": [1, None]}, "numbers": {"k": 1.5}, "price": "1.50",
        "day": "2013-01-02", "tail": None,
    }  # fmt: skip
    assert properties == {"WAIT": "true", "KEYS": "1"}


def test_columns_that_are_not_there_are_named_with_those_that_are(spark: SparkSession) -> None:
    frame = spark.sql("select 1 id, 'x' payload")

    def reasons(rows: Iterable[Any]) -> Iterator[str]:
        to_message = RowMapping(topic="Orders").to_message()
        for row in rows:
            try:
                to_message(row)
            except BadRow as error:
                yield error.reason

    assert frame.rdd.mapPartitions(reasons).collect() == [
        "there is no column 'value' for the value; the columns are 'id', 'payload': name another with "
        'columns={"value": ...}, or send whole rows with columns={"value": "*"} and value_format="json"'
    ]


def test_rows_of_an_rdd_may_be_plain_tuples_or_lines(spark: SparkSession) -> None:
    def bodies(rows: Iterable[Any], columns: dict[str, Any]) -> Iterator[bytes]:
        to_message = RowMapping(topic="Orders", columns=columns, value_format="string").to_message()
        for row in rows:
            message = to_message(row)
            assert message is not None
            yield message.body

    pairs = spark.sparkContext.parallelize([("AA-1", "a"), ("AA-2", "b")], 2)
    assert pairs.mapPartitions(lambda rows: bodies(rows, {"keys": 0, "value": 1})).collect() == [b"a", b"b"]
    assert pairs.keys().mapPartitions(lambda rows: bodies(rows, {"value": "*"})).collect() == [b"AA-1", b"AA-2"]
