"""The benchmark of the Spark format: its table and bars; with Spark, the whole of it, tiny."""

from __future__ import annotations

import os

import pytest

from benchmarks import __main__ as command
from benchmarks.bars import OURS as NAME_OF_OURS
from benchmarks.report import report
from benchmarks.rounds import Results
from benchmarks.servers import OURS
from benchmarks.spark import run as spark_run
from benchmarks.spark.pipeline import run
from benchmarks.spark.pipeline_plan import PIPELINE_BARS, ROWS, Extent, is_asked_for
from benchmarks.spark.usage import DRIVER, JVM, WORKERS, own_cpu, used_between
from benchmarks.table import render
from benchmarks.task import Outcome

UNITS = {row.name: row.unit for row in ROWS}


def results(**values: float) -> Results:
    found = Results(ROWS, (OURS,), {}, bars=PIPELINE_BARS)
    for name, value in values.items():
        notes = {"broker_percent": 2.0, "JVM_percent": 9.0} if name == "idle" else {"JVM_MB": 700.0}
        found.add("spark-" + name.replace("_", "-"), NAME_OF_OURS, Outcome(value, 1, notes=notes, round=1))
    return found


def test_every_bar_is_one_that_was_asked_for():
    asked = [(bar.figure.row, bar.limit, bar.at_least, bar.over and bar.over.row) for bar in PIPELINE_BARS]
    assert asked == [
        ("spark-read", 0.18, True, "spark-generator"),
        ("spark-write", 1.0, True, "spark-foreach"),
        ("spark-batch", 250.0, False, None),
        ("spark-idle", 3.0, False, None),
    ]
    assert {name for row, _, _, over in asked for name in (row, over) if name} <= set(UNITS)
    assert {row.floor for row in ROWS if row.floor} <= set(UNITS)


def test_the_table_has_shares_and_the_bars_are_judged():
    found = results(
        generator=1_400_000, read=280_000, read_1_queue=140_000, foreach=110_000, write=99_000, batch=230, idle=3.5
    )
    lines = {line.partition("  ")[0]: line.split() for line in render(found).splitlines() if line[:1] != " "}
    assert lines["read from 4 queues, all columns"][6:11] == ["280,000/s", "280,000", "–", "280,000", "0.20"]
    assert lines["a micro-batch from 4 queues"][5:7] == ["230", "ms"]
    assert " 0.50" in next(line for line in render(found).splitlines() if "from 1 of them" in line)
    words = {each.bar.figure.row: each.word for each in found.verdicts()}
    assert words == {
        "spark-read": "reached",
        "spark-write": "not reached",
        "spark-batch": "reached",
        "spark-idle": "not reached",
    }
    assert "broker 2 %" in report(found.verdicts(), UNITS)


@pytest.mark.parametrize(("names", "asked"), [(["spark"], True), (["spark-read"], True), (["spark-sink"], False)])
def test_names_are_known(names: list[str], asked: bool):
    assert is_asked_for(names) == asked


def test_what_is_missing_is_said_and_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(spark_run, "find_spec", lambda name: None)
    assert command.spark_main(command.arguments(["spark"])) == 1
    assert "not measured: there is no PySpark" in capsys.readouterr().err


def test_the_rows_are_listed(capsys: pytest.CaptureFixture[str]):
    assert command.spark_main(command.arguments(["spark", "--list"])) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [row.name for row in ROWS]


def test_a_process_that_ends_takes_no_cpu_with_it():
    before = {1: (JVM, 5.0), 2: (WORKERS, 9.0), 3: (WORKERS, 1.0)}
    after = {1: (JVM, 5.5), 3: (WORKERS, 1.25), 4: (WORKERS, 0.5)}
    assert used_between(before, after) == {JVM: 0.5, WORKERS: 0.75}
    assert own_cpu(os.getpid(), -1).get(os.getpid(), (DRIVER, 1.0))[0] == DRIVER


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.one_spark("PySpark 3.5 has no data sources in Python")
def test_every_figure_is_measured_with_spark():
    found = run(rounds=1, extent=Extent(rows=4_000, batches=1, idle_seconds=0.5, one_core=False))
    assert found.failures == []
    measured = {name for (name, _), outcomes in found.samples.items() if outcomes[0].value >= 0}
    assert measured == {row.name for row in ROWS if not row.name.endswith("-1-core")}
