"""What a user sees in the driver when a job fails: a line at the end that names the row, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocketpy import Message
from rocketpy.spark import sink
from rocketpy_broker_sim import BlockingLocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

READABLE = 400
"""Characters that a line may have which somebody reads in a hurry."""
BODY = "do-not-show-this-body"


def error_of(job: Callable[[], object]) -> str:
    """What Spark's own error says, which is all that reaches the driver of the worker's."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        job()
    return str(caught.value)


def last_word(text: str) -> str:
    """The line in which the worker's traceback ends."""
    (line, *_) = [line for line in text.splitlines() if line.startswith("rocketpy.RowError: ")]
    return line.removeprefix("rocketpy.RowError: ")


def texts(spark: SparkSession, *values: str | None) -> DataFrame:
    rows = [(value, f"key-{number}") for number, value in enumerate(values, 1)]
    return spark.createDataFrame(rows, "value string, keys string").coalesce(1)


def to_texts(servers: BlockingLocalCluster, **settings: Any) -> Any:
    return sink("Errors", namesrv=servers.name_server_addresses, value_format="string", **settings)


def test_a_null_value_is_named_by_its_row(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    line = last_word(error_of(lambda: texts(spark, BODY, BODY, None).foreachPartition(to_texts(servers))))
    assert line.startswith("row 3 of partition 0 (keys 'key-3')")
    assert "null" in line
    assert "bad_rows" in line
    assert len(line) < READABLE


def test_a_row_that_is_too_large_is_named(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    rows = texts(spark, *["fine"] * 40, BODY * 300, *["fine"] * 40)
    text = error_of(lambda: rows.foreachPartition(to_texts(servers, max_message_size=4096)))
    line = last_word(text)
    assert line.startswith("row 41 of partition 0 (keys 'key-41')")
    assert "4096" in line
    assert len(line) < READABLE
    assert BODY not in text


def test_a_refusal_of_the_broker_is_the_reason(spark: SparkSession, servers: BlockingLocalCluster) -> None:
    too_late = "current_timestamp() + interval 30 days as deliver_at"  # brokers take three days
    rows = spark.sql(f"select 'x' as value, 'AA-1' as keys, {too_late}")
    line = last_word(error_of(lambda: rows.foreachPartition(to_texts(servers))))
    assert line.startswith("row 1 of partition 0 (keys 'AA-1')")
    assert "the timer message is illegal" in line
    assert len(line) < READABLE


def test_no_name_server_is_said_as_such(spark: SparkSession) -> None:
    to = sink("Errors", namesrv="127.0.0.1:1", value_format="string", send_timeout=2.0)
    line = last_word(error_of(lambda: texts(spark, BODY).foreachPartition(to)))
    assert "127.0.0.1:1" in line
    assert len(line) < READABLE


def test_a_column_that_is_not_there_is_said_with_those_that_are(
    spark: SparkSession, servers: BlockingLocalCluster
) -> None:
    to = to_texts(servers, columns={"value": "payload"})
    text = error_of(lambda: texts(spark, BODY).foreachPartition(to))
    line = next(line for line in text.splitlines() if "payload" in line and line.startswith("rocketpy."))
    assert "value" in line
    assert "keys" in line
    assert len(line) < READABLE


def test_a_function_of_the_users_is_to_blame_for_its_own_error(
    spark: SparkSession, servers: BlockingLocalCluster
) -> None:
    def message_of(row: Row) -> Message:
        return Message("Errors", {"known": row.value}["missing"].encode())

    to = sink(namesrv=servers.name_server_addresses, to_message=message_of)
    text = error_of(lambda: texts(spark, BODY).foreachPartition(to))
    assert last_word(text).startswith("row 1 of partition 0")
    assert "KeyError: 'missing'" in text
    assert "in message_of" in text
    assert BODY not in text


def test_a_stream_ends_with_the_row_that_stopped_it(
    spark: SparkSession, servers: BlockingLocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(f"{BODY}\n\n", "utf-8")
    stream = spark.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(to_texts(servers))
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    text = error_of(lambda: query.awaitTermination(90))
    assert last_word(text).startswith("row 2 of partition 0")
    assert last_word(str(query.exception())) == last_word(text)
