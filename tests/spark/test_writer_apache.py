"""Writes by the format to Apache's servers: every row is stored once, as what its columns say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop import probe

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from tests.spark.conftest import Theirs

pytestmark = [pytest.mark.interop, pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")]

MANY = 3000


@pytest.fixture(scope="module")
def namesrv(theirs: Theirs) -> str:
    for topic in ("Written", "Streamed"):
        theirs.cluster.create_topic(topic, queues=4)
    return theirs.cluster.namesrv


def stored(spark: SparkSession, namesrv: str, topic: str) -> list[Row]:
    """All messages of a topic, once there are enough: brokers show them a moment after they have acknowledged them."""
    given = {"namesrv": namesrv, "subscribe": topic, "valueFormat": "string"}

    def look() -> list[Row] | None:
        found = spark.read.format("rocketmq").options(**given).load().collect()
        return found if len(found) >= MANY else None

    return probe.eventually(look, f"{MANY} messages in {topic}", 60.0)


def test_rows_are_stored_once(spark: SparkSession, namesrv: str) -> None:
    rows = spark.sql(
        f"""select id, concat('row-', id) as keys, if(id % 2 = 0, 'even', 'odd') as tags,
                   map('Größe', concat(id, ' µm')) as properties from range(0, {MANY}, 1, 4)"""
    )
    columns = {"value": "*", "keys": "keys", "tags": "tags", "properties": "properties"}
    given = {"namesrv": namesrv, "topic": "Written", "valueFormat": "json", "columns": json.dumps(columns)}
    rows.write.format("rocketmq").mode("append").options(**given, provenance="true").save()
    messages = stored(spark, namesrv, "Written")
    found = {json.loads(each.value)["id"]: each for each in messages}
    assert sorted(found) == list(range(MANY))
    origins = {(each.properties["SPARK_PART"], each.properties["SPARK_SEQ"]) for each in messages}
    assert len(origins) == len(messages) == MANY
    for number, each in found.items():
        assert (each["keys"], each.tags) == ([f"row-{number}"], ("even", "odd")[number % 2])
        assert each.properties["Größe"] == f"{number} µm"


def test_a_micro_batch_that_spark_runs_again_is_stored_once(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"{number}\n" for number in range(MANY)), "utf-8")
    given = {"namesrv": namesrv, "topic": "Streamed", "checkpointLocation": str(tmp_path / "checkpoint")}
    for _ in range(2):
        stream = spark.readStream.text(str(tmp_path / "in")).writeStream.format("rocketmq")
        stream = stream.options(**given, delivery="commit-marker")
        assert stream.trigger(availableNow=True).start().awaitTermination(90)
        shutil.rmtree(tmp_path / "checkpoint" / "commits")  # as after a driver that died before Spark wrote it
    assert sorted(int(each.value) for each in stored(spark, namesrv, "Streamed")) == list(range(MANY))
