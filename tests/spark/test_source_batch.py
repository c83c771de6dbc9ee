"""Batch reads through Spark: rows are what was sent, and what is wrong is said on the driver."""

from __future__ import annotations

import re
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.serialization import AvroSerializer
from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")


@pytest.fixture
def reader(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> DataFrameReader:
    return spark.read.format("rocketmq").option("namesrv", servers.name_server_addresses).option("subscribe", topic)


def fill(servers: BlockingLocalCluster, topic: str, count: int, **parts: Any) -> None:
    with Producer("spark-source-tests", namesrv=servers.name_server_addresses) as producer:
        for number in range(0, count, 25):  # a few at a time, so that all queues get some
            some = range(number, min(number + 25, count))
            producer.send_many([Message(topic, b"%d" % each, keys=[f"k{each}"], **parts) for each in some])


def test_rows_are_what_was_sent(reader: DataFrameReader, servers: BlockingLocalCluster, topic: str) -> None:
    """The format is found without a call of register."""
    fill(servers, topic, 2500, tags="a", properties={"color": "blue"})
    stored = {(each.queue_id, each.queue_offset): each for each in servers.messages(topic)}
    rows = reader.option("minPartitions", 6).load().collect()
    assert len(rows) == len(stored) == 2500
    for row in rows:
        message = stored[row.queue_id, row.offset]
        assert (row.value, row.topic, row.broker_name, row.tags) == (message.body, topic, "broker-a", "a")
        assert (row["keys"], row.properties) == (list(message.keys), {"color": "blue"})
        assert row.message_id == message.message_id


def test_columns_and_texts(reader: DataFrameReader, servers: BlockingLocalCluster, topic: str) -> None:
    fill(servers, topic, 10)
    frame = reader.options(columns="offset,value,timestamp", valueFormat="string").load()
    assert frame.schema.simpleString() == "struct<offset:bigint,value:string,timestamp:timestamp>"
    assert sorted(int(row.value) for row in frame.collect()) == list(range(10))
    own = reader.schema("value string, topic string").load()
    assert {row.topic for row in own.collect()} == {topic}


def test_every_column_has_the_type_that_spark_wants(reader: DataFrameReader) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from rocketpy.spark.source.arrow import arrow_schema
    from rocketpy.spark.source.shape import Shape

    assert to_arrow_schema(reader.load().schema, timezone="UTC").equals(arrow_schema(Shape()))


def test_values_by_a_schema(reader: DataFrameReader, servers: BlockingLocalCluster, topic: str) -> None:
    with Producer("spark-source-tests", namesrv=servers.name_server_addresses) as producer:
        producer.send(Message(topic, b'{"a": 1, "b": [{"at": "2026-11-28 10:00:00"}], "more": {}}'))
        producer.send(Message(topic, b"nothing of that"))
    as_json = reader.options(
        columns="value", valueFormat="json", valueSchema="a INT, b ARRAY<STRUCT<at: TIMESTAMP>>, c STRING"
    )
    with pytest.raises(Exception, match=r"offset 0 is not JSON of the type"):
        as_json.load().collect()
    rows = as_json.option("badValues", "null").load().collect()
    good = next(row.value for row in rows if row.value is not None)
    assert (good.a, good.c, str(good.b[0]["at"])) == (1, None, "2026-11-28 10:00:00")
    assert sum(row.value is None for row in rows) == 1


def test_values_in_avro(reader: DataFrameReader, servers: BlockingLocalCluster, topic: str) -> None:
    require(None if find_spec("fastavro") else "no fastavro in this environment: it is in the group test")
    fields = '{"name": "a", "type": "int"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}'
    schema = f'{{"type": "record", "name": "R", "fields": [{fields}]}}'
    body = AvroSerializer(schema).encode({"a": 5, "at": 1_000})
    with Producer("spark-source-tests", namesrv=servers.name_server_addresses) as producer:
        producer.send_many([Message(topic, body), Message(topic, body + b"more")])
    frame = reader.options(columns="value", valueFormat="avro", valueSchema=schema, badValues="null").load()
    assert frame.schema.simpleString() == "struct<value:struct<a:int,at:timestamp>>"
    rows = frame.selectExpr("value.a", "unix_millis(value.at) as at").collect()
    assert sorted((row.a or 0, row["at"] or 0) for row in rows) == [(0, 0), (5, 1000)]


def plan_of(frame: Any) -> str:
    """How Spark carries a query out, as it shows it."""
    return str(frame._jdf.queryExecution().toString())


def test_nothing_to_read(reader: DataFrameReader) -> None:
    assert reader.load().count() == 0
    read = import_module("rocketpy.spark.source.spark_classes")._read
    assert list(read(None, None, None)) == [], "PySpark before 4.2 has a partition that is None read"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"maxOffsetsPerTrigger": "5"}, "for streams"),
        ({"subscribePattern": ".*"}, "subscribe and subscribePattern"),
        ({"startingOffsets": '{"Other": {"broker-a": {"0": 1}}}'}, "Other@broker-a:0, which is not read"),
    ],
)
def test_mistakes_are_said_on_the_driver(reader: DataFrameReader, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        reader.options(**options).load().collect()


def test_filters_are_pushed_down_where_asked_for(
    spark: SparkSession, reader: DataFrameReader, servers: BlockingLocalCluster, topic: str
) -> None:
    for tag in ("a", "b"):
        fill(servers, topic, 50, tags=tag)
    conf = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(conf, "true")
    try:
        frame = reader.option("pushDownFilters", "true").load()
        found = frame.filter("tags = 'b' and offset >= 3 and queue_id in (0, 1, 2) and timestamp > '2020-01-01'")
        stored = [each for each in servers.messages(topic) if each.queue_id < 3 and each.queue_offset >= 3]
        expected = sorted(each.message_id for each in stored if each.tags == "b")
        assert expected
        assert sorted(row.message_id for row in found.collect()) == expected
        (left,) = re.findall(r"\) Filter (.*)", found._jdf.queryExecution().executedPlan().toString())
        assert "timestamp" in left
        assert "= b" not in left
    finally:
        spark.conf.unset(conf)


def test_the_example(
    servers: BlockingLocalCluster,
    spark: SparkSession,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from examples import spark_read

    fill(servers, topic, 30, tags="created")
    arguments = ["spark_read", topic, "--namesrv", servers.name_server_addresses]
    monkeypatch.setattr("sys.argv", arguments)
    spark_read.main()
    assert "|created|   30|" in capfd.readouterr().out
    monkeypatch.setattr("sys.argv", [*arguments, "--stream", str(tmp_path / "checkpoint")])
    spark_read.main()  # the console is that of the JVM
    spark_read.main()
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == 1
    assert len((ROOT / "examples" / "spark_read.py").read_text("utf-8").splitlines()) < 60


def test_secrets_are_not_shown(
    reader: DataFrameReader, servers: BlockingLocalCluster, topic: str, spark_log: Path
) -> None:
    fill(servers, topic, 3)
    frame = reader.option("rocketmq.accessKey", "me").option("rocketmq.secretKey", "hush-hush").load()
    assert frame.count() == 3
    assert "hush-hush" not in plan_of(frame)
    with pytest.raises(Exception, match="did you mean") as failed:
        reader.option("rocketmq.secretKey", "hush-hush").option("startingOfsets", "1").load().count()
    assert "hush-hush" not in str(failed.value)
    assert "hush-hush" not in spark_log.read_text("utf-8", "replace")


def test_readers_do_without_what_came_with_4_2(reader: DataFrameReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark 4.0 and 4.1 have no limits; the source keeps them itself."""
    import importlib
    import sys

    from rocketpy.spark.source import spark_classes
    from rocketpy.spark.source.options import stream_options

    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
        older = importlib.reload(spark_classes)
        options = stream_options({"namesrv": "a:1", "subscribe": "T", "maxOffsetsPerTrigger": "5"})
        asked: list[Any] = []
        made = older.StreamReader(options, None)
        patched.setattr(made._core, "latest", lambda start, most: asked.append((start, most)))
        made.latestOffset()
        assert asked == [(None, 5)]
    importlib.reload(spark_classes)


def test_it_can_be_registered(spark: SparkSession, servers: BlockingLocalCluster, topic: str) -> None:
    import rocketpy.spark

    rocketpy.spark.register(spark)
    rocketpy.spark.register(spark)
    given = {"namesrv": servers.name_server_addresses, "subscribe": topic}
    assert spark.read.format("rocketmq").options(**given).load().count() == 0


@pytest.mark.parametrize("text", ["[DATA_SOURCE_ALREADY_EXISTS] Data source 'rocketmq' already exists.", "[OTHER] no"])
def test_what_spark_has_found_by_itself_need_not_be_taken_again(spark: SparkSession, text: str) -> None:
    """As with PySpark 4.0."""
    import rocketpy.spark

    def refuse(_: object) -> None:
        raise RuntimeError(text)

    refusing = SimpleNamespace(dataSource=SimpleNamespace(register=refuse))
    with pytest.raises(RuntimeError, match="OTHER") if "OTHER" in text else nullcontext():
        rocketpy.spark.register(refusing)
