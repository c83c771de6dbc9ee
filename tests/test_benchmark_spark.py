"""The benchmark of the Spark sink: what it says of processes, its table and bars; with Spark, the whole of it, tiny."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.bars import OURS as NAME_OF_OURS
from benchmarks.report import report
from benchmarks.rounds import Results
from benchmarks.servers import OURS
from benchmarks.spark import run as spark_run
from benchmarks.spark.input import PARTITIONS, VALUE, drain, pair, to_message
from benchmarks.spark.plan import LOOPS, ROWS, SPARK_BARS, is_asked_for
from benchmarks.spark.run import run
from benchmarks.spark.usage import (
    BROKER,
    DRIVER,
    JVM,
    WORKERS,
    Process,
    Sampler,
    cpu_by_role,
    growth,
    memory_by_role,
    parsed,
    roles,
)
from benchmarks.table import render
from benchmarks.task import Outcome

on_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the kernel has no /proc")


def told(rate: float, memory: float = 0.0) -> Outcome:
    notes = {"JVM_cpu": 0.4, "JVM_MB": 800.0, "workers_MB": 90.0}
    notes |= {f"{role}_growth_percent": memory for role in (DRIVER, JVM, WORKERS)}
    return Outcome(rate, 2_000_000, 0.9, 0.3, notes)


def results(**rates: float) -> Results:
    found = Results(ROWS, (OURS,), {}, bars=SPARK_BARS)
    for name, rate in rates.items():
        found.add("spark-" + name.replace("_", "-"), NAME_OF_OURS, told(rate))
    return found


def test_every_bar_is_one_that_was_asked_for():
    asked = [
        (bar.figure.row, bar.figure.part, bar.limit, bar.at_least, bar.over and bar.over.row) for bar in SPARK_BARS
    ]
    assert asked[:3] == [
        ("spark-df-sink", "value", 50_000, True, None),
        ("spark-df-sink", "value", 0.4, True, "spark-df-bare"),
        ("spark-rdd-sink", "value", 50_000, True, None),
    ]
    assert {(row, part) for row, part, limit, at_least, _ in asked[3:] if limit == 10 and not at_least} == {
        (f"spark-{loop}-sink", f"{role}_growth_percent") for loop in ("df", "rdd") for role in (DRIVER, JVM, WORKERS)
    }
    assert {figure for figure, *_ in asked} <= {row.name for row in ROWS}


def test_the_table_has_rates_shares_cpu_and_memory_and_the_bars_are_judged():
    found = results(df_bare=300_000, df_sink=110_000, rdd_bare=2_000_000, rdd_sink=120_000)
    lines = {line.partition("  ")[0]: line.split() for line in render(found).splitlines()}
    assert lines["DataFrame, columns"][2:] == [
        *["110,000/s", "110,000", "–", "110,000", "0.37", "0.90", "0.30", "0.40", "800", "MB", "90.0", "MB"]
    ]
    words = {bar.bar.title: bar.word for bar in found.verdicts()}
    assert words["DataFrame into the sink"] == words["RDD of pairs into the sink"] == "reached"
    assert words["DataFrame into the sink, to the loop without sending"] == "not reached"
    assert "Of 9 bars, 8 reached, 1 not reached, 0 unmeasured." in report(found.verdicts(), {})


def test_memory_that_grows_misses_its_bar():
    found = results(df_bare=300_000)
    found.add("spark-df-sink", NAME_OF_OURS, told(150_000, memory=10.1))
    missed = {each.bar.title for each in found.verdicts() if each.word == "not reached"}
    assert missed == {f"DataFrame: memory of {role}, growth" for role in (DRIVER, JVM, WORKERS)}


@pytest.mark.parametrize(
    ("samples", "percent"),
    [([], 0.0), ([5.0], 0.0), ([0.0, 0.0], 0.0), ([1.0, 2.0, 2.0, 3.0], 50.0), ([9.0, 4.0, 4.0, 2.0], -50.0)],
)
def test_growth_is_from_the_second_quarter_to_the_last(samples: list[float], percent: float):
    assert growth(samples) == pytest.approx(percent)


def test_a_process_with_any_name_is_read():
    numbers = " ".join(["0"] * 9 + ["100", "50", "25", "25"])
    found = parsed(f"12 (a) (b c) S 7 {numbers} 20 0")
    assert (found.pid, found.parent, found.name) == (12, 7, "a) (b c")
    assert found.cpu == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))


def test_processes_are_told_apart_by_where_they_stand():
    tree = [(1, 0, "init"), (5, 1, "python"), (6, 5, "java"), (7, 6, "python"), (8, 7, "python"), (9, 1, "python")]
    running = {pid: Process(pid, parent, name, 1.0) for pid, parent, name in tree}
    assert roles(running, driver=5, broker=9) == {5: DRIVER, 6: JVM, 7: WORKERS, 8: WORKERS, 9: BROKER}
    assert roles(running, driver=50, broker=90) == {}


@on_linux
def test_a_sampler_sees_this_process_and_ends_with_its_block():
    began = cpu_by_role(os.getpid(), -1)[DRIVER]
    with Sampler(os.getpid(), -1, every=60.0) as sampler:
        until = time.process_time() + 0.05
        while time.process_time() < until or not sampler.samples:
            pass
    assert cpu_by_role(os.getpid(), -1)[DRIVER] > began
    assert sampler.of(DRIVER)[0] > 1.0
    assert sampler.of(BROKER) == [0.0] * len(sampler.samples)
    assert memory_by_role(os.getpid(), os.getpid())[BROKER] > 1.0


def test_input_is_what_the_table_says():
    assert len(VALUE) == 100
    message = to_message(pair(17))
    assert (message.keys, message.body) == (("order-17",), VALUE)
    drain(rows := iter(range(3)))
    assert next(rows, None) is None


@pytest.mark.parametrize(("names", "asked"), [(["spark-sink"], True), (["spark-df-bare"], True), (["trio-one"], False)])
def test_names_of_spark_are_known(names: list[str], asked: bool):
    assert is_asked_for(names) == asked


def test_what_is_missing_is_told_and_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(spark_run, "find_spec", lambda name: None)
    assert command.spark_main(command.arguments(["spark-sink"])) == 1
    assert "not measured: there is no PySpark" in capsys.readouterr().err
    monkeypatch.setattr(spark_run, "find_spec", lambda name: object())
    monkeypatch.setattr(spark_run.shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "Spark needs Java" in str(spark_run.unavailable())


def test_the_rows_are_listed(capsys: pytest.CaptureFixture[str]):
    assert command.spark_main(command.arguments(["spark-sink", "--list"])) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [row.name for row in ROWS]


@pytest.mark.spark
@pytest.mark.one_spark("it asks the measuring, which knows neither line")
def test_every_loop_is_measured_with_spark():
    found = run(rounds=1, rows=50 * PARTITIONS)
    assert found.failures == []
    for loop in LOOPS:
        (outcome,) = found.samples[f"spark-{loop}", NAME_OF_OURS]
        assert outcome.value > 0
        assert outcome.notes["JVM_MB"] > outcome.notes["workers_MB"] > 0
    assert len(json.loads(json.dumps(found.to_json()))["bars"]) == len(SPARK_BARS)
