"""The pipeline of the Spark demo without Spark: what it compares, refuses and draws. tests/spark runs it as a whole."""

from __future__ import annotations

import sys
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from examples.quickstart.records import UnreadableInputError
from examples.spark_demo import picture
from examples.spark_demo.java import NoSparkError
from examples.spark_demo.pipeline import check_spark, results_in
from examples.spark_demo.queries import Watched
from examples.spark_demo.results import Delays, show, verdict

ROWS = [("UA", 3600, 3, 2, 4.5, 9), ("UA", 7200, 1, 0, None, None), ("B6", 3600, 2000, 1, -3.0, -3)]
SAID = "2,004 flights, 3 hours of 2 carriers"


def test_equal_rows_in_any_order_and_twice_are_equal() -> None:
    topic = Delays([*reversed(ROWS), ROWS[0]], at_least_once=True)
    assert (topic.again, topic.doubled) == (1, 0)
    equal, said = verdict(Delays(ROWS), {"topic": topic, "Parquet": Delays(ROWS)}, 0)
    assert equal
    assert said == f"totals from topic and from Parquet equal those of the CSV file: {SAID}; 0 rows came too late"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (ROWS[:2], "4 flights, hours that differ: 1"),
        ([*ROWS, ("OO", 3600, 1, 1, 0.0, 0)], "2,005 flights, hours that differ: 1"),
        ([("UA", 3600, 3, 2, 4.0, 9), *ROWS[1:]], "2,004 flights, hours that differ: 1"),
        ([*ROWS, ("UA", 3600, 3, 2, 4.0, 9)], "2,004 flights, hours that differ: 0, duplicate rows: 1"),
        ([*ROWS, ROWS[0]], "2,004 flights, hours that differ: 0, duplicate rows: 1"),
    ],
)
def test_what_differs_is_said(rows: list[tuple[Any, ...]], found: str) -> None:
    equal, said = verdict(Delays(ROWS), {"topic": Delays(ROWS), "Parquet": Delays(rows)}, 0)
    assert not equal
    assert said == (
        f"TOTALS DIFFER FROM THOSE OF THE CSV FILE ({SAID}): from topic the same, from Parquet {found}; "
        "0 rows came too late"
    )


def test_rows_that_came_too_late_are_never_passed_over() -> None:
    equal, said = verdict(Delays(ROWS), {"topic": Delays(ROWS)}, 1200)
    assert not equal
    assert said.endswith("from topic the same; 1,200 rows came too late")


def test_the_table_has_all_sides(capsys: pytest.CaptureFixture[str]) -> None:
    show(Delays(ROWS), {"topic": Delays(ROWS), "Parquet": Delays(ROWS[1:2])})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "carrier flights by topic by Parquet minutes late by topic by Parquet longest by topic by Parquet",
        "B6 2,000 2,000 missing -3 -3 missing -3 -3 missing",
        "UA 4 4 1 9 9 0 9 9 -",
    ]


def query(*batches: tuple[int, int]) -> Any:
    reports = [
        {"numInputRows": rows, "stateOperators": [{"numRowsDroppedByWatermark": late}]} for rows, late in batches
    ]
    return SimpleNamespace(recentProgress=reports)


def test_queries_after_each_other_are_counted_together() -> None:
    watched = Watched()
    assert (watched.read, watched.batches, watched.too_late) == (0, 0, 0)
    watched.follow(query((40, 0), (10, 3), (0, 0)))
    watched.follow(query((1, 2), (0, 0)))
    assert (watched.read, watched.batches, watched.too_late) == (51, 3, 5)


@pytest.mark.parametrize("version", ["3.5.6", "4.1.2"])
def test_the_spark_that_it_needs_is_said(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    installed = ModuleType("pyspark")
    installed.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", installed)
    with pytest.raises(NoSparkError, match=rf"needs PySpark 4\.2 or newer, and this is {version}\. With a CSV file"):
        check_spark()


@pytest.mark.parametrize("version", ["4.2.0", "4.10.0.dev1", "5.0.0"])
def test_a_newer_spark_is_taken(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    installed = ModuleType("pyspark")
    installed.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", installed)
    check_spark()


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NoSparkError, match="PySpark is not installed"):
        check_spark()


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    assert results_in(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list((tmp_path / "a" / "b").iterdir()) == []
    with pytest.raises(UnreadableInputError, match="a is not empty: name a new directory"):
        results_in(tmp_path / "a")
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableInputError, match="file cannot be created or read"):
        results_in(tmp_path / "file")


def test_a_picture_is_drawn_where_matplotlib_is_and_asked_for_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = picture.Figures([(date(2013, 1, 1), 4.0), (date(2013, 1, 2), 90.0)], {("UA", 6): 4.0, ("B6", 8): 90.0})
    if find_spec("matplotlib") is not None:
        picture.draw(found, tmp_path / "delays.svg")
        assert "by carrier and hour" in (tmp_path / "delays.svg").read_text("utf-8")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(picture.NoPictureError, match=r"it needs matplotlib: run \./dev spark-demo"):
        picture.draw(found, tmp_path / "delays.png")
    with pytest.raises(picture.NoPictureError, match="no flight has departed"):
        picture.draw(picture.Figures([], {}), tmp_path / "delays.png")
