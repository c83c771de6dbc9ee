"""Batch writes through Spark: messages are what rows say, and what is wrong is said on the driver."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.spark import provenance_of, sink
from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.test_errors_seen import READABLE, error_of, last_word
from tests.spark.test_killed_tasks import PATIENCE, at_the_middle

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from rocketpy.message import MessageExt

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")

EVERYTHING = """
    select id, concat('k', id) as keys, 'a' as tags, map('color', 'blue', 'none', null) as properties,
           if(id % 2 = 0, 'even', null) as sharding_key, timestamp '2026-01-02 03:04:05.678901' as at,
           timestamp_ntz '2026-01-02 03:04:05' as local, date '2026-01-02' as day, cast(1.50 as decimal(9, 2)) as price,
           array(named_struct('at', timestamp '2026-07-01 00:00:00', 'm', map('x', 1))) as nested,
           cast('bytes' as binary) as raw, interval '1' hour as lasting, cast(null as string) as nothing
    from range(0, 50, 1, 2)
"""


@pytest.fixture
def write(servers: BlockingLocalCluster, topic: str) -> Callable[..., None]:
    """Writes a frame into the topic."""

    def write(frame: DataFrame, mode: str = "append", **options: Any) -> None:
        given = {"namesrv": servers.name_server_addresses, "topic": topic, **options}
        frame.write.format("rocketmq").mode(mode).options(**given).save()

    return write


def said_by(message: MessageExt) -> tuple[Any, ...]:
    """All that rows have a part in."""
    properties = {
        name: text
        for name, text in message.wire_properties.items()
        if name not in ("UNIQ_KEY", "__CRC32#", "SPARK_APP", "SPARK_STAGE")
    }
    return message.body, tuple(sorted(properties.items()))


def test_rows_become_the_messages_that_the_sink_makes_of_them(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, write: Callable[..., None]
) -> None:
    frame = spark.sql(EVERYTHING)
    columns = {"value": "*", "keys": "keys", "tags": "tags", "properties": "properties", "sharding_key": "sharding_key"}
    write(frame, columns=json.dumps(columns), valueFormat="json", provenance="true")
    written = servers.wait_messages(topic, 50)
    other = f"{topic}-sink"
    servers.create_topic(other, queues=4)
    to = sink(other, namesrv=servers.name_server_addresses, columns=columns, value_format="json", provenance=True)
    frame.foreachPartition(to)
    assert sorted(map(said_by, written)) == sorted(map(said_by, servers.wait_messages(other, 50)))
    assert len({provenance_of(each) for each in written}) == 50
    assert len({each.properties["SPARK_APP"] for each in written}) == 1


def test_columns_by_their_names(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, write: Callable[..., None]
) -> None:
    """A column of topics, for which no option stands, and a column of strings, which needs no format."""
    noise = """parse_json('{"a": 1}') as noise"""  # of a type that no part could have
    frame = spark.sql(f"select 'x' as value, '{topic}' as topic, current_timestamp() as deliver_at, {noise}")
    frame.write.format("rocketmq").mode("append").option("namesrv", servers.name_server_addresses).save()
    (message,) = servers.wait_messages(topic, 1)
    assert message.body == b"x"


def test_what_was_read_can_be_written_as_it_is(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, write: Callable[..., None]
) -> None:
    source = f"{topic}-source"
    servers.create_topic(source, queues=2)
    with Producer("spark-writer-tests", namesrv=servers.name_server_addresses) as producer:
        for number in range(20):
            producer.send(Message(source, b"%d" % number, keys=["k", "l"], tags="t", properties={"a": "b"}))
    given = {"namesrv": servers.name_server_addresses, "subscribe": source}
    write(spark.read.format("rocketmq").options(**given).load())
    messages = servers.wait_messages(topic, 20)
    assert {each.body for each in messages} == {b"%d" % number for number in range(20)}
    assert {(each.keys, each.tags, each.properties["a"]) for each in messages} == {(("k", "l"), "t", "b")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topik": "x"}, "did you mean topic"),
        ({"columns": '{"value": "payload"}'}, "no column 'payload' for the value; the columns are 'value', 'id'"),
        ({"valueFormat": "binary"}, "'value' has the type string"),
        ({"columns": '{"properties": "id"}'}, "'id' has the type bigint, and the properties must be a map"),
        ({"rocketmq.secretKey": "hush-hush"}, r"rocketmq\.secretKey needs the rocketmq\.accessKey"),
        ({"mode": "overwrite"}, "a topic cannot be overwritten"),
        ({"mode": "errorifexists"}, "cannot be written in the .ErrorIfExists. mode"),
    ],
)
def test_mistakes_are_said_on_the_driver(
    spark: SparkSession, write: Callable[..., None], options: dict[str, str], said: str
) -> None:
    frame = spark.sql("select 'x' as value, id from range(1)")
    with pytest.raises(Exception, match=said) as error:
        write(frame, **options)
    assert "hush-hush" not in str(error.value)


def test_a_bad_row_fails_the_write_and_is_named(
    spark: SparkSession, servers: BlockingLocalCluster, topic: str, write: Callable[..., None]
) -> None:
    frame = spark.sql("select if(id = 2, null, 'x') as value, concat('k', id) as keys from range(0, 3, 1, 1)")
    line = last_word(error_of(lambda: write(frame)))
    assert line.startswith("row 3 of partition 0 (keys 'k2'): the value is null")
    write(frame, badRows="skip")
    assert len(servers.messages(topic)) >= 2


def test_a_name_server_that_is_away(spark: SparkSession, write: Callable[..., None]) -> None:
    frame = spark.sql("select 'x' as value")
    line = last_word(error_of(lambda: write(frame, namesrv="127.0.0.1:1", **{"rocketmq.sendTimeout": "2"})))
    assert "127.0.0.1:1" in line
    assert len(line) < READABLE


def test_a_broker_that_dies_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """The write fails: one partition was sent, and the other one waited until the broker was gone."""
    reached, gone = tmp_path / "reached", tmp_path / "gone"
    for pipe in (reached, gone):
        os.mkfifo(pipe)

    def wait_for_death() -> None:  # opening a pipe waits for the other end
        reached.open("wb").close()
        gone.open("rb").close()

    with BlockingLocalCluster(data=tmp_path / "store") as servers:

        def kill() -> None:
            reached.open("rb").close()
            try:
                servers.wait_messages("Dying", 1000, timeout=PATIENCE)  # its worker may be starting yet
                servers.kill_broker(0)
            finally:
                gone.open("wb").close()  # or the other worker would wait for ever

        servers.create_topic("Dying")
        rows = spark.sparkContext.parallelize(range(2000), 2).mapPartitionsWithIndex(at_the_middle(wait_for_death))
        frame = spark.createDataFrame(rows, "value string, keys string")
        killing = threading.Thread(target=kill, daemon=True)
        killing.start()
        given = {"namesrv": servers.name_server_addresses, "topic": "Dying", "rocketmq.sendTimeout": "5"}
        text = error_of(lambda: frame.write.format("rocketmq").mode("append").options(**given).save())
        assert "of partition 1" in last_word(text)
        killing.join(PATIENCE)
        assert not killing.is_alive()
        servers.start_broker(0)
        assert {each.body for each in servers.messages("Dying")} == {b"row %d" % number for number in range(1000)}


def test_the_example(
    servers: BlockingLocalCluster, spark: SparkSession, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from examples import spark_write

    arguments = ["spark_write", topic, "--namesrv", servers.name_server_addresses]
    monkeypatch.setattr(sys, "argv", arguments)
    spark_write.main()
    assert {each.tags for each in servers.wait_messages(topic, 3)} == {"coffee", "tea"}
