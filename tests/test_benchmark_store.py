"""The benchmarks of the store run, tiny: each figure is taken, stands in the table, and meets its bar or does not."""

from __future__ import annotations

import gc
import json
import sys
from array import array
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.bars import ALONE, APACHE, OURS, Bar, Figure
from benchmarks.measure import Row
from benchmarks.report import report
from benchmarks.rounds import Results
from benchmarks.store.bars import STORE_BARS
from benchmarks.store.big_store import TOPIC, BigStore, build
from benchmarks.store.measure import Scale
from benchmarks.store.open_loop import Latencies
from benchmarks.store.plan import MEASURES, chosen, is_asked_for
from benchmarks.store.run import run
from benchmarks.store.timeline import Timeline, draw, sign
from benchmarks.store.watched import Pause, Watch, read_pauses
from benchmarks.table import render
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError
from benchmarks.verdicts import MISSED, REACHED, UNMEASURED, judge
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore

TINY = Scale(
    records=640,
    seconds=0.3,
    warm_seconds=0.1,
    steady_seconds=0.2,
    most_topics=64,
    big=BigStore(messages=3_000, files=3, file_size=1 << 21),
    small_log=1 << 18,
    large_log=1 << 19,
    backlog=512,
    backlog_topics=4,
)

ASKED = """
store-append >= 0.1 of store-pwrite
store-append-100 >= 0.3 of store-pwrite
store-behind <= 65536
store-sync-64 >= 10 of store-sync-1
store-steady-p999 <= 1.5 of store-steady-p999 or <= 10
store-steady-max <= 50
store-open <= 3
store-rss-anon <= 150
store-restart-64m <= 3
store-topics-64 >= 0.8 of store-topics-1
store-topics-1000 >= 0.8 of store-topics-1
store-topics-10000 >= 0.8 of store-topics-1
store-filter-tag <= 0.2 of store-filter-tag slower_times
store-filter-sql <= 6 of store-filter-sql slower_times
store-filter-bits <= 1 of store-filter-bits slower_times
store-send-backlog >= 0.8 of store-send-alone
"""
"""Every bar."""


MAY_BE_NOTHING = {f"store-steady-over-{limit}" for limit in (10, 50, 500)} | {
    "store-gc-max",
    "store-gc-share",
    "store-behind",
}


LEFT_OUT = ("store-topics-1000", "store-topics-10000")
"""Too many topics for a test."""


def taken(results: Results) -> list[Row]:
    return [row for row in results.rows if not row.name.startswith(LEFT_OUT)]


@pytest.fixture(scope="module")
def results() -> Results:
    return run(MEASURES, None, {APACHE: "no java"}, rounds=1, scale=TINY)


@pytest.mark.slow
def test_every_figure_of_the_store_is_taken_and_makes_sense(results: Results):
    assert results.failures == []
    for row in taken(results):
        outcomes = results.samples.get((row.name, ALONE)) or results.samples[row.name, OURS]
        assert all(outcome.value > 0 or row.name in MAY_BE_NOTHING for outcome in outcomes), row


@pytest.mark.slow
def test_the_table_of_the_store_has_a_line_for_every_figure(results: Results):
    lines = render(results).splitlines()
    for row in taken(results):
        assert sum(line.startswith(f"{row.title}  ") for line in lines) == 1, row
    (goal,) = (line for line in lines if line.startswith("append, 1 KiB, 64 a turn"))
    assert "80,000/s" in goal


@pytest.mark.slow
def test_every_bar_of_the_store_is_judged(results: Results):
    verdicts = results.verdicts()
    assert [verdict.bar for verdict in verdicts] == list(STORE_BARS)
    for verdict in verdicts:
        beside_apache = verdict.bar.over is not None and verdict.bar.over.servers == APACHE
        left_out = verdict.bar.figure.row.startswith(LEFT_OUT)
        assert (verdict.judged is None) is (beside_apache or left_out), verdict.bar
    assert "the store" in report(verdicts, {})
    assert json.loads(json.dumps(results.to_json()))["bars"][0]["table"] == "store"


def test_a_bar_of_the_store_moves_by_a_decision_only():
    def sign(bar: Bar) -> str:
        return ">=" if bar.at_least else "<="

    def named(figure: Figure) -> str:
        return figure.row if figure.part == "value" else f"{figure.row} {figure.part}"

    told = [
        f"{bar.figure.row} {sign(bar)} {bar.limit:g}"
        + (f" of {named(bar.over)}" if bar.over else "")
        + (f" or {sign(bar)} {bar.enough:g}" if bar.enough else "")
        for bar in STORE_BARS
    ]
    assert told == ASKED.split("\n")[1:-1]


def test_bars_of_the_store_speak_of_rows_that_there_are():
    rows = {row.name for measure in MEASURES for row in measure.rows}
    for bar in STORE_BARS:
        assert {bar.figure.row, *([bar.over.row] if bar.over else [])} <= rows, bar


@pytest.mark.slow
def test_the_dispatcher_is_never_left_behind(results: Results):
    assert results.samples["store-behind", ALONE][0].value == 0


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["store"], [measure.name for measure in MEASURES]),
        (["store-append"], ["store-append"]),
        (["store-sync-1", "store-reput"], ["store-append", "store-group-commit"]),
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


@pytest.mark.parametrize(
    ("own", "theirs", "word"),
    [(9.0, 1.0, REACHED), (14.0, 10.0, REACHED), (16.0, 10.0, MISSED), (16.0, None, UNMEASURED)],
)
def test_a_figure_that_is_good_enough_needs_no_ratio(own: float, theirs: float | None, word: str):
    bar = Bar("store", "x", Figure("x", OURS), 1.5, at_least=False, over=Figure("x", APACHE), enough=10.0)
    samples = {("x", OURS): [Outcome(own, 1)]} | ({("x", APACHE): [Outcome(theirs, 1)]} if theirs else {})
    assert judge(bar, samples, {}).word == word


# --- steady sending

LATENCIES = Latencies(
    array("d", [0.5 * n for n in range(100)]), array("d", [0.001 * n for n in range(100)]), array("d", [0.0] * 100)
)


def test_percentiles_are_those_of_the_ordered_latencies():
    assert [LATENCIES.percentile(share) for share in (0.5, 0.99, 1.0)] == [0.05, 0.099, 0.099]
    assert (LATENCIES.above(0.0905), LATENCIES.above(1.0)) == (9, 0)


def test_latencies_of_slices_are_joined():
    both = Latencies()
    both.extend(LATENCIES)
    both.extend(LATENCIES)
    assert len(both.due) == len(both.latency) == len(both.late) == 200


def test_the_strip_has_a_sign_for_each_part_of_a_run():
    head, line = Timeline({OURS: LATENCIES}, []).text().splitlines()
    assert "longest latency" in head
    assert (len(line), line[:9], line[-1]) == (8 + 60, "ours    ▁", "▆")
    assert (sign(0.0), sign(5.0)) == ("▁", "█")


def test_latency_over_time_is_drawn_where_matplotlib_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    timeline = Timeline({OURS: LATENCIES, APACHE: LATENCIES}, [Pause(1.0, 0.001, 2)])
    if find_spec("matplotlib") is not None:
        draw(timeline, tmp_path / "latency.svg", "today, here")
        assert "today, here" in (tmp_path / "latency.svg").read_text("utf-8")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BenchmarkError, match="wants matplotlib"):
        draw(timeline, tmp_path / "latency.png", "")


def test_collections_are_noted_with_their_generation(tmp_path: Path):
    watch = Watch()
    gc.callbacks.append(watch)
    try:
        gc.collect(1)
        gc.collect()
    finally:
        gc.callbacks.remove(watch)
    (tmp_path / "pauses").write_text(json.dumps(watch.pauses), "ascii")
    pauses = read_pauses(tmp_path / "pauses")
    assert [pause.generation for pause in pauses] == [1, 2]
    assert all(pause.seconds > 0 for pause in pauses)


# --- the large store


def test_a_large_store_opens_and_its_last_file_is_real(tmp_path: Path):
    big = BigStore(messages=3_000, files=3, file_size=1 << 21)
    build(tmp_path, big)
    store = MessageStore(RealStorage(tmp_path), MessageStoreConfig(mapped_file_size_commit_log=big.file_size))
    store.load()
    count = big.files * big.a_file - 1
    assert sum(store.reads.max_offset(TOPIC, queue) for queue in range(16)) == count
    queue, offset = (count - 1) % 16, (count - 1) // 16
    found = store.reads.get(TOPIC, queue, offset, 1)
    assert (found.count, len(found.records)) == (1, big.record_size)
    assert store.written_position == big.position(count - 1) + big.record_size
    store.close()
