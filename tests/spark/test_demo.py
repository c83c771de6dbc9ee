"""The Spark demo and the example of a sink: each a process with a JVM of its own, as for a user, where it matters."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.spark_demo import __main__ as demo
from examples.spark_demo.session import FailedJobError, told_in_a_line
from rocketpy.message import Message
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require
from tests.spark.local_spark import ROOT, environment_of_programs, missing_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CSV = 'shop,cups,"price.€"\n' + "".join(f'"{"NS"[n % 2]}, street",{n},{n}.25\n' for n in range(600)) + "\n,7,\n"


@pytest.fixture(autouse=True, scope="module")
def a_spark() -> None:
    require(missing_for_spark())


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment_of_programs(), capture_output=True, text=True, timeout=200
    )


def test_a_file_of_the_users_own_and_any_name_server(tmp_path: Path, servers: BlockingLocalCluster) -> None:
    file = tmp_path / "own.csv"
    file.write_text(CSV, "utf-8")
    ran = run("examples.spark_demo", file, "--namesrv", servers.name_server_addresses)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert "N, street 300 300 89,700 89,700 89,775 89,775" in lines
    assert "S, street 300 300 90,000 90,000 90,075 90,075" in lines
    assert "(none) 1 1 7 7 - -" in lines
    assert lines[-1] == "totals from the messages equal Spark's: 601 of 601 rows, 3 groups by shop"


@pytest.mark.one_spark("the demo runs on both lines; what it compares is not Spark's")
def test_a_message_that_spark_has_not_sent_makes_the_totals_differ(
    spark: SparkSession,
    servers: BlockingLocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextlib.contextmanager
    def session(_: str) -> Iterator[SparkSession]:
        _word, topic, *_ = capsys.readouterr().out.split()
        servers.send(Message(topic, json.dumps({"shop": "N, street", "cups": 1, "price.€": 0}).encode()))
        yield spark

    file = tmp_path / "own.csv"
    file.write_text(CSV, "utf-8")
    monkeypatch.setattr(demo, "session", session)
    monkeypatch.setattr(sys, "argv", ["spark-demo", str(file), "--namesrv", servers.name_server_addresses])
    status = demo.main()
    said, trouble = capsys.readouterr()
    assert status == 1, said + trouble
    assert said.splitlines()[-1].startswith("TOTALS FROM THE MESSAGES DIFFER FROM SPARK'S: 60")


@pytest.mark.one_spark("it asks the example's own words")
def test_a_job_that_failed_is_one_line() -> None:
    from pyspark.errors import PySparkException

    pages = "An exception\n  File x\nrocketpy.SendError: a\nrocketpy.RowError: row 3 of partition 1: b\n\tat java"
    with pytest.raises(FailedJobError, match=r"^rocketpy\.RowError: row 3 of partition 1: b$"), told_in_a_line():
        raise PySparkException(pages)
    with pytest.raises(FailedJobError, match=r"^out of disk$"), told_in_a_line():
        raise PySparkException("out of disk\n\tat java")


@pytest.mark.one_spark("frames and counts are asked on both lines")
def test_the_example_of_a_sink(servers: BlockingLocalCluster) -> None:
    ran = run("examples.spark_sink", "--namesrv", servers.name_server_addresses)
    assert ran.returncode == 0, ran.stderr
    sent = servers.messages("Orders")
    assert ran.stdout == f"3 orders sent, {sum(len(message.body) for message in sent)} bytes\n"
    assert sorted(message.keys for message in sent) == [("42",), ("43",), ("44",)]
    bodies = {message.tags: json.loads(message.body) for message in sent if message.keys != ("42",)}
    assert bodies["tea"] == {"id": "43", "drink": "tea", "price": 2.0}
