"""The benchmarks of the store run, tiny: each figure is taken, stands in the table, and meets its bar or does not."""

from __future__ import annotations

import json

import pytest

from benchmarks import __main__ as command
from benchmarks.bars import ALONE, APACHE, OURS
from benchmarks.report import report
from benchmarks.rounds import Results
from benchmarks.store.bars import STORE_BARS
from benchmarks.store.measure import Scale
from benchmarks.store.plan import MEASURES, chosen, is_asked_for
from benchmarks.store.run import run
from benchmarks.table import render
from benchmarks.trouble import BenchmarkError

TINY = Scale(records=640, seconds=0.3, warm_seconds=0.1)

ASKED = """
store-append >= 0.1 of store-pwrite
store-append-100 >= 0.3 of store-pwrite
store-reput >= 1 of store-put
store-sync-64 >= 10 of store-sync-1
"""
"""Every bar."""


@pytest.fixture(scope="module")
def results() -> Results:
    return run(MEASURES, None, {APACHE: "no java"}, rounds=1, scale=TINY)


def test_every_figure_of_the_store_is_taken_and_makes_sense(results: Results):
    assert results.failures == []
    for row in results.rows:
        outcomes = results.samples.get((row.name, ALONE)) or results.samples[row.name, OURS]
        assert all(outcome.value > 0 for outcome in outcomes), row


def test_the_table_of_the_store_has_a_line_for_every_figure(results: Results):
    lines = render(results).splitlines()
    for row in results.rows:
        assert sum(line.startswith(row.title) for line in lines) == 1, row
    (goal,) = (line for line in lines if line.startswith("append, 1 KiB, 64 a turn"))
    assert "80,000/s" in goal


def test_every_bar_of_the_store_is_judged(results: Results):
    verdicts = results.verdicts()
    assert [verdict.bar for verdict in verdicts] == list(STORE_BARS)
    assert all(verdict.judged is not None for verdict in verdicts if verdict.bar.over != APACHE)
    assert "the store" in report(verdicts, {})
    assert json.loads(json.dumps(results.to_json()))["bars"][0]["table"] == "store"


def test_a_bar_of_the_store_moves_by_a_decision_only():
    told = [
        f"{bar.figure.row} {'>=' if bar.at_least else '<='} {bar.limit:g}" + (f" of {bar.over.row}" if bar.over else "")
        for bar in STORE_BARS
    ]
    assert told == ASKED.split("\n")[1:-1]


def test_bars_of_the_store_speak_of_rows_that_there_are():
    rows = {row.name for measure in MEASURES for row in measure.rows}
    for bar in STORE_BARS:
        assert {bar.figure.row, *([bar.over.row] if bar.over else [])} <= rows, bar


def test_the_dispatcher_is_never_left_behind(results: Results):
    assert results.samples["store-reput", ALONE][0].notes == {"behind_bytes": 0}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["store"], [measure.name for measure in MEASURES]),
        (["store-append"], ["store-append"]),
        (["store-sync-1", "store-reput"], ["store-reput", "store-group-commit"]),
    ],
)
def test_measures_of_the_store_are_chosen_by_their_name_or_that_of_a_row(names: list[str], found: list[str]):
    assert [measure.name for measure in chosen(names)] == found


def test_names_that_are_none_of_the_store_are_refused():
    assert is_asked_for(["store-append", "trio-one"])
    assert not is_asked_for(["trio-one"])
    with pytest.raises(BenchmarkError, match="nothing of the store is called trio-one; there are: store, store-append"):
        chosen(["store-append", "trio-one"])


def test_the_command_lists_the_figures_of_the_store(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", ["bench", "--list", "store-group-commit"])
    assert command.main() == 0
    assert capsys.readouterr().out.split("\n")[0].startswith("store-sync-1 ")
