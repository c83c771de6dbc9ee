"""What a consumer finds in a message for what stood in a row: value formats and the other columns, through Spark."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy import Message
from rocketpy.message import PropertyName
from rocketpy.serialization import serializer
from rocketpy.spark import sink
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.one_spark(
    "test_columns_of_frames asks on both lines what rows become; here they go on to a broker"
)

SCHEMA = "flight string, delay double, seats int, fare decimal(8,2), day date, legs array<string>, crew map<string,int>"
FLIGHTS: list[tuple[Any, ...]] = [
    ("AA-1", -3.5, 189, decimal.Decimal("99.90"), datetime.date(2013, 1, 1), ["JFK", "LAX"], {"pilots": 2}),
    ("Zürich-🛫", None, None, None, None, None, None),
]


def the_only_one(servers: BlockingLocalCluster, topic: str) -> Any:
    (message,) = servers.wait_messages(topic)
    return message


@pytest.mark.parametrize("value_format", ["json", "msgpack"])
def test_a_whole_row_becomes_an_object(spark: SparkSession, servers: BlockingLocalCluster, value_format: str) -> None:
    topic = f"Objects-{value_format}"
    to = sink(
        topic,
        namesrv=servers.name_server_addresses,
        columns={"value": "*", "keys": "flight"},
        value_format=value_format,
    )
    spark.createDataFrame(FLIGHTS, SCHEMA).foreachPartition(to)
    messages = {message.keys[0]: message for message in servers.wait_messages(topic, 2)}
    full = serializer(value_format).decode(messages["AA-1"].body)
    assert isinstance(full, dict)
    assert list(full) == ["flight", "delay", "seats", "fare", "day", "legs", "crew"]
    assert (full["flight"], full["delay"], full["seats"]) == ("AA-1", -3.5, 189)
    assert decimal.Decimal(full["fare"]) == decimal.Decimal("99.90")
    assert str(full["day"]) == "2013-01-01"
    assert (full["legs"], full["crew"]) == (["JFK", "LAX"], {"pilots": 2})
    empty = serializer(value_format).decode(messages["Zürich-🛫"].body)
    assert empty == dict.fromkeys(full) | {"flight": "Zürich-🛫"}


def test_binary_and_text_arrive_as_they_are(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    raw = bytes(range(256))
    spark.createDataFrame([(raw,)], "value binary").foreachPartition(
        sink("Binary", namesrv=servers.name_server_addresses)
    )
    assert the_only_one(servers, "Binary").body == raw
    spark.createDataFrame([("Flüge\0🛫",)], "value string").foreachPartition(
        sink("Text", namesrv=servers.name_server_addresses, value_format="string")
    )
    assert the_only_one(servers, "Text").body.decode() == "Flüge\0🛫"


def test_every_field_of_a_message_can_come_from_a_column(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    schema = """topic string, payload string, tags string, ids array<string>, headers map<string,string>,
                carrier string, sync boolean"""
    row = ("By-column", "late", "Verspätung", ["AA-1", "N14228"], {"Größe": "3 µm", "n": "7"}, "AA", False)
    to = sink(
        namesrv=servers.name_server_addresses,
        columns={
            "value": "payload",
            "keys": "ids",
            "properties": "headers",
            "sharding_key": "carrier",
            "wait_store_ok": "sync",
        },
        value_format="string",
    )
    spark.createDataFrame([row], schema).foreachPartition(to)
    message = the_only_one(servers, "By-column")
    assert message.body == b"late"
    assert (message.tags, message.keys, message.sharding_key) == ("Verspätung", ("AA-1", "N14228"), "AA")
    assert message.wire_properties.items() >= {"Größe": "3 µm", "n": "7", PropertyName.WAIT: "false"}.items()


def test_a_function_says_what_becomes_of_a_row(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    def message_of(row: Row) -> Message | None:
        return Message("By-function", f"{row.id}".encode(), tags="even") if row.id % 2 == 0 else None

    to = sink(namesrv=servers.name_server_addresses, to_message=message_of)
    spark.range(10).foreachPartition(to)
    bodies = sorted(message.body for message in servers.wait_messages("By-function", 5))
    assert bodies == [b"0", b"2", b"4", b"6", b"8"]
    assert (to.counts.sent, to.counts.skipped) == (5, 5)


def test_rows_with_one_sharding_key_stay_in_order(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    rows = spark.range(0, 2000, 1, 1).selectExpr(
        "cast(id as string) as value", "concat('carrier-', id % 7) as sharding_key"
    )
    rows.foreachPartition(sink("In-order", namesrv=servers.name_server_addresses, value_format="string", batch_size=16))
    messages = servers.wait_messages("In-order", 2000)
    for number in range(7):
        of_one = [each for each in messages if each.sharding_key == f"carrier-{number}"]
        assert len({each.queue for each in of_one}) == 1
        of_one.sort(key=lambda each: each.queue_offset)
        assert [int(each.body) for each in of_one] == list(range(number, 2000, 7))


def test_a_delayed_row_is_held_back(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    rows = spark.createDataFrame([("later", 1), ("now", None)], "value string, delay_level int").coalesce(1)
    rows.foreachPartition(sink("Delayed", namesrv=servers.name_server_addresses, value_format="string"))
    by_body = {message.body: message for message in servers.wait_messages("Delayed", 2)}
    assert set(by_body) == {b"later", b"now"}
    later = by_body[b"later"]
    assert later.system_properties[PropertyName.DELAY] == "1"
    assert later.store_timestamp - later.born_timestamp >= 900
    assert PropertyName.DELAY not in by_body[b"now"].wire_properties
