"""The bars: what is compared with what, the three verdicts, the reasons why one is missing, and the print of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.bars import ALONE, APACHE, BARS, CONSUMER_BARS, OURS, SURFACE_BARS, Bar, Figure
from benchmarks.plan import (
    CONSUMER,
    PRODUCER,
    SURFACES,
    WAITING,
    measures,
    of_trees,
    rounds_for,
    waiting_for,
    wants_ours,
)
from benchmarks.plot import LEAST, MOST, distance, marks, plot
from benchmarks.report import ratio, report
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError
from benchmarks.verdicts import MISSED, REACHED, UNMEASURED, judge, middle

SHARE = Bar("work", "share", Figure("trio-one", APACHE), 0.60, over=Figure("raw-one", APACHE), shape="one")


def samples(**rows: float) -> dict[tuple[str, str], list[Outcome]]:
    return {(name.replace("_", "-"), APACHE): [Outcome(value, 1)] for name, value in rows.items()}


@pytest.mark.parametrize(
    ("limit", "at_least", "value", "word"),
    [
        (0.6, True, 600.0, REACHED),
        (0.6, True, 599.0, MISSED),
        (2.0, False, 2000.0, REACHED),
        (2.0, False, 2001.0, MISSED),
    ],
)
def test_the_bar_itself_is_reached(limit: float, at_least: bool, value: float, word: str):
    bar = Bar("work", "x", Figure("trio-one", APACHE), limit, at_least, Figure("raw-one", APACHE))
    assert judge(bar, samples(trio_one=value, raw_one=1000.0), {}).word == word


def test_the_middle_is_that_of_all_samples_and_a_part_is_that_of_those_that_have_it():
    taken = [Outcome(3.0, 1, cpu=1.0), Outcome(1.0, 1), Outcome(2.0, 1, cpu=3.0, notes={"p50_us": 7.0})]
    assert middle({("a", ALONE): taken}, Figure("a", ALONE)) == 2.0
    assert middle({("a", ALONE): taken}, Figure("a", ALONE, "cpu")) == 2.0
    assert middle({("a", ALONE): taken}, Figure("a", ALONE, "p50_us")) == 7.0
    assert middle({("a", ALONE): taken}, Figure("a", ALONE, "server_cpu")) is None


def test_peers_are_divided_by_what_we_are_divided_by():
    verdict = judge(SHARE, samples(trio_one=650.0, raw_one=1000.0, java_one=770.0), {})
    assert (verdict.judged, dict(verdict.peers)) == (0.65, {"java": 0.77})


def test_a_figure_of_nothing_is_a_figure():
    bar = Bar("servers", "cpu", Figure("idle-cpu", OURS), 1.0, at_least=False)
    assert judge(bar, {("idle-cpu", OURS): [Outcome(0.0, 0)]}, {}).word == REACHED


def test_what_is_missing_is_named_with_its_reason():
    assert judge(SHARE, {}, {APACHE: "there is no java"}).why == "there is no java"
    peer = Bar("work", "start", Figure("start-trio", APACHE), 2.0, False, Figure("javascript-start", APACHE))
    lacking = judge(peer, samples(start_trio=190.0), {"javascript": "there is no node"})
    assert (lacking.word, lacking.figure, lacking.why) == (UNMEASURED, 190.0, "there is no node")
    assert judge(SHARE, samples(trio_one=1.0), {}).why == "raw-one was not measured on the servers called apache"
    alone = Bar("itself", "decode", Figure("decode", ALONE), 1.0)
    assert judge(alone, {}, {}).why == "decode was not measured"


def in_rounds(row: str, *values: float | None) -> dict[tuple[str, str], list[Outcome]]:
    """A sample for each round but those with None, as a run keeps them where one fails."""
    taken = [Outcome(value, 1, round=number) for number, value in enumerate(values, 1) if value is not None]
    return {(row, APACHE): taken}


def test_ratios_are_those_of_each_round():
    # The machine is ten times as slow in the last round: the ratio of the medians would be 500 to 1,000.
    found = {**in_rounds("trio-one", 700.0, 500.0, 65.0), **in_rounds("raw-one", 1000.0, 1000.0, 100.0)}
    verdict = judge(SHARE, found, {})
    assert (verdict.judged, verdict.rounds, verdict.word) == (0.65, 3, REACHED)
    assert (verdict.figure, verdict.over) == (500.0, 1000.0)


def test_a_round_that_lacks_one_side_does_not_shift_the_others():
    found = {
        **in_rounds("trio-one", 700.0, None, 70.0),
        **in_rounds("raw-one", 1000.0, 500.0, 100.0),
        **in_rounds("java-one", None, 400.0, 90.0),
    }
    verdict = judge(SHARE, found, {})
    assert (verdict.judged, verdict.rounds) == (0.7, 2)
    assert verdict.peers["java"] == pytest.approx(0.85)


def test_rounds_that_have_nothing_in_common_are_no_measurement():
    found = {**in_rounds("trio-one", 700.0), **in_rounds("raw-one", None, 1000.0)}
    assert judge(SHARE, found, {}).word == UNMEASURED


def test_fewer_rounds_than_a_bar_asks_for_are_called_a_first_look():
    bar = replace(SHARE, rounds=2)
    first, enough = (
        {**in_rounds("trio-one", *[700.0] * rounds), **in_rounds("raw-one", *[1000.0] * rounds)} for rounds in (1, 2)
    )
    assert "A first look and no verdict, because it takes 2 rounds: share." in report([judge(bar, first, {})], {})
    assert "first look" not in report([judge(bar, enough, {})], {})


def test_dividing_by_nothing_is_no_measurement():
    assert judge(SHARE, samples(trio_one=1.0, raw_one=0.0), {}).word == UNMEASURED


ASKED = """
trio-one >= 0.6 of raw-one
blocking-one >= 0.7 of raw-one
aio-one >= 0.58 of raw-one
trio-64 >= 1.3 of javascript-64
trio-64 cpu <= 1.1 of javascript-64 cpu
aio-64 >= 1.4 of javascript-64
aio-64 cpu <= 0.8 of javascript-64 cpu
send-soon-64 >= 1.3 of javascript-64
send-soon-64 cpu <= 1 of javascript-64 cpu
threads-64 >= 1.2 of java-threads-64
threads-64 p99_us <= 1 of java-threads-64 p99_us
threads-8 >= 1 of java-threads-8
threads-8 p99_us <= 1 of java-threads-8 p99_us
linger-soon >= 0.6 of java-auto-batch
linger-trio >= 0.6 of java-auto-batch
linger-aio >= 0.6 of java-auto-batch
linger-threads-64 >= 1 of threads-64
transact-one >= 0.8 of java-transact-one
ours transact-one >= 0.4 of transact-one
transact-64 >= 0.8 of java-transact-64
ours transact-64 >= 0.4 of transact-64
traced-64 >= 0.85 of trio-64
traced-threads-64 >= 0.85 of threads-64
closing lost_messages <= 0
closing unanswered_messages <= 0
closing-soon lost_messages <= 0
closing-soon unanswered_messages <= 0
ours memory-growth <= 1024
ours timer-late first_ms >= 0
ours timer-late last_ms <= 200
ours level-late first_ms >= 0
ours level-late last_ms <= 200
ours timers-at-once first_ms >= 0
ours timers-at-once <= 3000
consume-orderly >= 0.9 of consume
consume-orderly-async >= 0.9 of consume-async
consume-orderly >= 1 of java-orderly
consume-orderly-async >= 1 of java-orderly
lite-pull >= 1 of java-lite
lite-pull >= 1 of java-new-consume
settle <= 5000
blocked <= 1032
ours held-pulls <= 5 of ours held-pulls slower_times
alone store-filter-tag <= 0.2 of alone store-filter-tag slower_times
alone store-filter-sql <= 6 of alone store-filter-sql slower_times
alone store-filter-bits <= 1 of alone store-filter-bits slower_times
trio-64 >= 0.5 of raw-64
trio-64 cpu <= 2
oneway >= 1.3 of trio-64
batch >= 0.5 of raw-batch
consume >= 0.25 of raw-consume
consume-async >= 0.25 of raw-consume
latency <= 1.2 of java-latency
start-trio <= 2 of javascript-start
start-blocking <= 2 of javascript-start
ours cold <= 0.1 of cold
ours idle-rss <= 80
ours idle-cpu <= 1
ours stop <= 1000
ours raw-64 >= 0.7 of raw-64
ours raw-one p50_us <= 1 of raw-one p50_us
ours raw-batch >= 0.5 of raw-batch
ours raw-pull >= 0.4 of raw-pull
alone decode >= 300000
alone decode-all >= 300000
alone import <= 1.25 of alone import-floor
alone import-trio <= 1.25 of alone import-floor
alone cluster-start <= 300
ours cli-help <= 150
ours cli-completion <= 150
ours cli-topic-list <= 400
ours tail >= 20000
ours tail-json >= 20000
ours idle-close <= 200
"""
"""Every bar. Where no servers are named it stands on Apache's."""


def test_a_bar_moves_by_a_decision_only():
    def named(figure: Figure) -> str:
        servers = "" if figure.servers == APACHE else figure.servers
        return " ".join(filter(None, (servers, figure.row, "" if figure.part == "value" else figure.part)))

    told = [
        f"{named(bar.figure)} {'>=' if bar.at_least else '<='} {bar.limit:.6g}"
        + ("" if bar.over is None else f" of {named(bar.over)}")
        for bar in BARS
    ]
    assert told == ASKED.split("\n")[1:-1]


def test_bars_speak_of_rows_that_there_are():
    rows = {row.name for names in ((), [CONSUMER], [PRODUCER]) for measure in measures(names) for row in measure.rows}
    for bar in BARS:
        assert bar.figure.row in rows, bar
        assert bar.over is None or bar.over.row in rows, bar


def test_a_bar_brings_what_it_is_divided_by():
    names = {row.name for measure in measures(["oneway"]) for row in measure.rows}
    assert names == {"oneway", "raw-64", "trio-64"}


def test_the_print_says_figure_ratio_bar_verdict_and_reasons():
    late = Bar("itself", "late", Figure("late", ALONE), 200.0, at_least=False)
    missing = Bar("itself", "gone", Figure("gone", ALONE), 1.25, at_least=False, over=Figure("late", ALONE))
    found = {**samples(trio_one=650.0, raw_one=1000.0, java_one=770.0), ("late", ALONE): [Outcome(250.0, 1)]}
    verdicts = [judge(bar, found, {"gone": "it left"}) for bar in (SHARE, late, missing)]
    text = report(verdicts, {"trio-one": "/s", "raw-one": "/s", "late": "ms"})
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert lines["share"] == ["share", "1,000/s", "–", "0.77", "650/s", "0.65", ">=", "0.6", "reached"]
    assert lines["late"] == ["late", "250", "ms", "<=", "200", "ms", "not", "reached"]
    assert "Unmeasured, because it left: gone." in text
    assert text.endswith("Of 3 bars, 1 reached, 1 not reached, 1 unmeasured.")


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.50"), (0.4987, "0.499"), (0.49996, "0.49996"), (1.234, "1.23")])
def test_a_ratio_never_looks_like_the_bar_that_it_misses(value: float, text: str):
    assert ratio(value, 0.5) == text


# --- the picture

AT_MOST = Bar("itself", "late", Figure("late", ALONE), 200.0, at_least=False)


@pytest.mark.parametrize(
    ("bar", "judged", "times"),
    [(SHARE, 1.2, 2.0), (SHARE, 0.3, 0.5), (AT_MOST, 100.0, 2.0), (AT_MOST, 0.0, MOST), (SHARE, 0.0, LEAST)],
)
def test_a_picture_shows_how_many_times_the_bar_is_reached(bar: Bar, judged: float, times: float):
    assert distance(bar, judged) == pytest.approx(times)


def test_a_picture_has_a_line_for_what_was_measured_with_the_peers_on_it():
    found = samples(trio_one=900.0, raw_one=1000.0, java_one=300.0)
    (line,) = marks([judge(SHARE, found, {}), judge(AT_MOST, found, {})])
    assert (line.title, line.word, line.ours, line.peers) == ("share  (>= 0.6)", REACHED, 1.5, {"java": 0.5})


def test_a_picture_is_drawn_where_matplotlib_is_and_asked_for_where_it_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    verdicts = [judge(SHARE, samples(trio_one=900.0, raw_one=1000.0, java_one=300.0), {})]
    if find_spec("matplotlib") is not None:
        plot(verdicts, tmp_path / "bars.svg", "today, here")
        assert "today, here" in (tmp_path / "bars.svg").read_text("utf-8")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BenchmarkError, match="wants matplotlib"):
        plot(verdicts, tmp_path / "bars.png", "")


def test_nothing_measured_is_no_picture(tmp_path: Path):
    with pytest.raises(BenchmarkError, match="nothing to draw"):
        plot([judge(SHARE, {}, {})], tmp_path / "bars.png", "")


# --- the surfaces


def test_the_surfaces_are_measured_with_all_their_peers_beside_them():
    names = {row.name for measure in measures([SURFACES]) for row in measure.rows}
    assert names >= {bar.figure.row for bar in SURFACE_BARS} | {bar.over.row for bar in SURFACE_BARS if bar.over}
    assert names >= {"java-one", "javascript-one", "java-64", "java-hot-64", "raw-one", "raw-64"}
    assert not names & {"consume", "oneway", "start-trio"}
    assert (rounds_for([SURFACES]), wants_ours([SURFACES])) == (5, False)
    assert (rounds_for(["trio-64"]), wants_ours([SURFACES, "consume"])) == (3, True)
    assert {bar.rounds for bar in SURFACE_BARS} == {5}


# --- consuming


def test_consuming_is_measured_with_enough_messages_beside_javas_client():
    names = {row.name for measure in measures([CONSUMER]) for row in measure.rows}
    assert names >= {"consume", "consume-orderly", "lite-pull", "java-new-consume", "java-orderly", "java-lite"}
    assert not names & {"trio-one", "oneway", "latency", "start-trio"}
    assert (rounds_for([CONSUMER]), wants_ours([CONSUMER])) == (5, False)
    assert (waiting_for([CONSUMER], 40_000), waiting_for(["consume"], 40_000)) == (WAITING, 40_000)
    assert {bar.rounds for bar in CONSUMER_BARS if bar.over is not None and bar.table == "work"} == {5}


def test_what_consumers_cost_a_broker_is_measured_with_consuming():
    chosen = {row.name: measure for measure in measures([CONSUMER]) for row in measure.rows}
    assert {"blocked", "settle", "held-pulls", "store-filter-tag", "store-filter-sql"} <= chosen.keys()
    assert chosen["held-pulls"].brings is not None
    both = [measure for measure in measures([CONSUMER, "batch"]) if measure.rows[0].name == "held-pulls"]
    assert [measure.brings for measure in both] == [None]
    assert "store-filter-tag" not in {row.name for measure in measures() for row in measure.rows}


def test_the_group_of_consuming_compares_what_two_trees_can_be_compared_by():
    names = {row.name for measure in of_trees([CONSUMER], also="") for row in measure.rows}
    assert names == {"consume-orderly", "consume-orderly-async", "lite-pull", "settle", "blocked"}
