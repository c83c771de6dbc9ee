"""Sink, source and writer with Spark Connect, whose driver is elsewhere: all as ever, but the sink has no counts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rocketpy.spark import provenance_of
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require
from tests.spark.connect import missing_for_connect
from tests.spark.local_spark import ROOT, missing_for_spark

LONG = 300.0


def test_a_connect_client_sends_frames_and_streams(tmp_path: Path) -> None:
    require(missing_for_spark() or missing_for_connect())
    with BlockingLocalCluster() as cluster:
        # SPARK_TESTING gives the server a free port, where its own default is always the same one.
        command = [sys.executable, "-m", "tests.spark.connect_job", str(tmp_path), cluster.name_server_addresses]
        run = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "SPARK_TESTING": "1"},
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
        assert "all of it was sent" in run.stdout
        messages = cluster.wait_messages("Connected", 80)
        written = cluster.wait_messages("Written", 80)
        once = cluster.messages("ConnectedOnce")
    assert sorted(int(message.body) for message in messages) == [*range(50), *range(100, 130)]
    assert len({provenance_of(message) for message in messages}) == 80
    streamed = [message for message in messages if "SPARK_BID" in message.properties]
    assert {(each.properties["SPARK_QID"], each.properties["SPARK_BID"]) for each in streamed} == {
        ("connected-job", "0")
    }
    assert len(streamed) == 30
    said = run.stdout.splitlines()
    assert {"read as a batch: 80", "read as a stream: 80"} <= set(said)
    assert "maxOffsetsPerTrigger is for streams" in run.stdout
    (counts,) = [line for line in said if line.startswith("no counts: ")]
    assert "Spark Connect" in counts
    assert any(line.startswith("rocketpy.RowError: row 1 of partition 0") for line in said)
    assert "provenance needs the id of the query, which is not known here: give a job_id" in run.stdout
    assert sorted(int(message.body) for message in once) == [*range(100, 130)], "the second time, it sends nothing"
    assert sorted(int(message.body) for message in written) == [*range(50), *range(100, 130)]
    assert len({provenance_of(message) for message in written}) == 80
    assert {message.properties.get("SPARK_BID") for message in written} == {None, "0"}
    assert "the RocketMQ writer has no option 'topik': did you mean topic?" in run.stdout
