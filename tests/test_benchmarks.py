"""The benchmarks run: every figure is taken once, tiny, on our servers, and stands in a table of the right shape."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from benchmarks import __main__ as command
from benchmarks.bars import ALONE, APACHE, PEERS
from benchmarks.budget import Budget, Tickets
from benchmarks.latencies import spread
from benchmarks.measure import Ground, Measure, Row, Size
from benchmarks.plan import measures
from benchmarks.rounds import Results, run
from benchmarks.servers import OURS
from benchmarks.table import grid, render
from benchmarks.task import Outcome
from benchmarks.trouble import BenchmarkError

TINY = Size(Budget(seconds=5.0, messages=60), filled=300, idle_seconds=0.05, warm_seconds=40.0, isolated=False)
"""Messages end what there is to measure and to warm up, long before the time does."""


@pytest.fixture(scope="module")
def results() -> Results:
    return run(measures(), [OURS], {APACHE: "no java"}, rounds=1, size=TINY)


def own(results: Results) -> list[Row]:
    """All rows but those of peers, which are measured on Apache's servers only."""
    return [row for row in results.rows if not row.name.startswith(PEERS)]


@pytest.mark.slow
def test_every_figure_is_taken_once_and_makes_sense(results: Results):
    for row in own(results):
        make = ALONE if (row.name, ALONE) in results.samples else OURS.name
        (outcome,) = results.samples[row.name, make]
        assert outcome.value > 0 or row.name in ("idle-cpu", "held-pulls"), row
        if row.unit == "/s" and not row.name.startswith("decode"):
            assert 0 < outcome.messages <= TINY.filled, row


@pytest.mark.slow
def test_sends_of_every_shape_arrive(results: Results):
    (oneway,) = results.samples["oneway", OURS.name]
    assert oneway.notes["arrived_percent"] == 100


@pytest.mark.slow
def test_single_sends_note_the_middle_and_the_tail_of_their_times(results: Results):
    for name in ("raw-one", "trio-one", "blocking-one", "aio-one", "trio-64", "aio-64", "send-soon-64", "threads-8"):
        (outcome,) = results.samples[name, OURS.name]
        assert 0 < outcome.notes["p50_us"] <= outcome.notes["p99_us"], name
        assert outcome.round == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trio-64", "aio-64", "send-soon-64", "threads-64", "threads-8"])
def test_messages_are_spread_over_tasks_and_threads_to_the_last_one(results: Results, name: str):
    (outcome,) = results.samples[name, OURS.name]
    assert outcome.messages == TINY.budget.messages


@pytest.mark.slow
def test_the_tables_have_a_line_for_every_figure(results: Results):
    text = render(results)
    for row in own(results):
        assert sum(line.startswith(row.title) for line in text.splitlines()) >= 1, row
    assert "Apache RocketMQ: not measured, because no java" in text
    assert "of raw" in text


@pytest.mark.slow
def test_lines_of_a_table_are_in_columns(results: Results):
    first = render(results).split("\n\n")[0].splitlines()
    column = first[0].index("median") + len("median")
    assert all(line[column - 1] != " " for line in first if not line.startswith("-"))


@pytest.mark.slow
def test_what_json_gets_is_complete(results: Results):
    told = json.loads(json.dumps(results.to_json()))
    assert {figure["name"] for figure in told["figures"]} == {row.name for row in own(results)}
    assert all(sample["value"] >= 0 for figure in told["figures"] for sample in figure["samples"])
    words = {bar["title"]: (bar["verdict"], bar["why"]) for bar in told["bars"]}
    assert words["idle broker: memory"] == ("reached", "")
    assert words["send, one in flight: trio"] == ("unmeasured", "no java")
    assert told["machine"]
    assert told["date"]


@pytest.mark.slow
def test_a_worker_process_measures_as_this_one_does():
    chosen = [measure for measure in measures(["raw-one"]) if measure.rows[0].name == "raw-one"]
    size = Size(Budget(5.0, 20), filled=100, warm_seconds=40.0)
    (outcome,) = run(chosen, [OURS], {}, rounds=1, size=size).samples["raw-one", OURS.name]
    assert outcome.messages == 20


@pytest.mark.slow
def test_a_figure_that_cannot_be_taken_is_told_and_the_run_goes_on(
    capsys: pytest.CaptureFixture[str],
):
    def fails(ground: Ground) -> Mapping[str, Outcome]:
        raise BenchmarkError("it is broken")

    steps = [Measure((Row("bad", "bad", "/s"),), fails), *measures(["raw-one"])]
    found = run(steps, [OURS], {}, rounds=1, size=TINY)
    assert found.failures == ["round 1, bad (rocketpy_broker_sim): it is broken"]
    assert ("raw-one", OURS.name) in found.samples
    assert json.loads(json.dumps(found.to_json()))["failures"] == found.failures
    assert command.publish(found, command.arguments([])) == 1
    assert "not measured: round 1, bad" in capsys.readouterr().err


def test_asking_for_a_figure_brings_its_floor_and_nothing_else():
    assert [row.name for measure in measures(["consume"]) for row in measure.rows] == ["raw-consume", "consume"]


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(BenchmarkError, match=r"nothing is called warp; there are: raw-one"):
        measures(["warp"])


def test_the_command_lists_names(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["bench", "--list", "trio-one"])
    assert command.main() == 0
    assert capsys.readouterr().out.split("\n")[1].startswith("trio-one")


def test_medians_spread_and_share_of_the_floor_are_shown():
    rows = (Row("raw", "raw", "/s"), Row("ours", "ours", "/s", floor="raw"))
    results = Results(rows, (OURS,), {})
    for value in (1000.0, 3000.0, 2000.0):
        results.add("raw", OURS.name, Outcome(value, 1))
        results.add("ours", OURS.name, Outcome(value / 2, 1, cpu=1.5))
    line = next(line for line in render(results).splitlines() if line.startswith("ours"))
    assert line.split() == ["ours", "1,000/s", "500", "–", "1,500", "0.50", "1.50"]


def test_tickets_end_with_the_messages_and_with_the_time():
    few = Tickets(Budget(60.0, 3))
    assert (few.take(), few.take_up_to(5), few.take_up_to(5), few.given) == (True, 2, 0, 3)
    assert Tickets(Budget(-1.0, 3)).take() is False


def test_shares_of_a_budget_are_whole():
    shares = [Budget(1.0, 130).share(number, 64) for number in range(64)]
    assert (sum(share.messages for share in shares), {share.messages for share in shares}) == (130, {2, 3})
    assert [Budget(1.0, 2).share(number, 3).messages for number in range(3)] == [1, 1, 0]


def test_percentiles_are_the_nearest_of_the_times():
    times = [number / 1e6 for number in range(200, 0, -1)]
    assert spread(times) == pytest.approx({"p50_us": 100.0, "p99_us": 198.0})
    assert spread([0.5e-6]) == {"p50_us": 0.5, "p99_us": 0.5}
    assert spread([]) == {}


def test_a_grid_is_as_wide_as_its_widest_cells():
    assert grid(("a", "b"), [("long", "1"), ("x", "22")]) == "a      b\n--------\nlong   1\nx     22"
