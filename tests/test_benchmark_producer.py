"""The benchmark of producers: what it counts, what it refuses to call a figure, and two of its promises in full."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio

from benchmarks import __main__ as command
from benchmarks import slow_brokers, timing
from benchmarks.arrivals import Arrivals, ends
from benchmarks.bars import PRODUCER_BARS
from benchmarks.budget import Budget
from benchmarks.clients import closing, growth, traced
from benchmarks.frames import Wire, send_frame
from benchmarks.measure import QUEUES, SEND_TOPIC, Ground, Measure, Row, Size, task_of
from benchmarks.peers.peer import Peer
from benchmarks.peers.work import works
from benchmarks.plan import PRODUCER, measures, of_trees, rounds_for, wants_ours
from benchmarks.rounds import run
from benchmarks.servers import OURS, Site
from benchmarks.task import BODY, Outcome, Task
from benchmarks.trouble import BenchmarkError
from benchmarks.verdicts import REACHED, judge

TINY = Size(Budget(seconds=5.0, messages=60), filled=60, warm_seconds=40.0, isolated=False)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with OURS.run() as running:
        running.create_topic(SEND_TOPIC, QUEUES)
        yield running


@pytest.fixture
def ground(site: Site) -> Ground:
    return Ground(OURS, site, TINY, "producer")


# --- what is measured


def test_producers_are_measured_beside_javas_client_on_both_brokers():
    names = {row.name for measure in measures([PRODUCER]) for row in measure.rows}
    assert names >= {bar.figure.row for bar in PRODUCER_BARS} | {bar.over.row for bar in PRODUCER_BARS if bar.over}
    assert names >= {"java-auto-batch", "java-auto-threads-64", "java-transact-one", "java-transact-64", "trio-64"}
    assert not names & {"consume", "latency", "start-trio"}
    assert (rounds_for([PRODUCER]), wants_ours([PRODUCER])) == (5, True)


def test_what_takes_long_is_measured_only_where_it_is_asked_for():
    long = {"memory-growth", "timer-late", "level-late", "timers-at-once"}
    assert not long & {row.name for measure in measures() for row in measure.rows}
    assert not long & {row.name for measure in of_trees([PRODUCER], also="") for row in measure.rows}
    assert {row.name for measure in measures(["timer-late"]) for row in measure.rows} == {"timer-late", "level-late"}


@pytest.mark.slow
@pytest.mark.waits("timers come when they are due")
def test_what_takes_long_is_taken_in_the_first_round_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "LEAD", 0.5)
    seen: list[int] = []

    def often(ground: Ground) -> Mapping[str, Outcome]:
        seen.append(1)
        return {"often": Outcome(1.0, 1)}

    names = ["memory-growth", "timer-late", "timers-at-once"]
    steps = [*measures(names), Measure((Row("often", "often", "/s"),), often)]
    found = run(steps, [OURS], {}, rounds=2, size=TINY)
    assert (found.failures, len(seen)) == ([], 2)
    long = {name: outcomes for (name, _), outcomes in found.samples.items() if name != "often"}
    assert {name: len(outcomes) for name, outcomes in long.items()} == dict.fromkeys(
        ["memory-growth", "timer-late", "level-late", "timers-at-once"], 1
    )
    for name in ("timer-late", "level-late"):
        notes = long[name][0].notes
        assert 0 <= notes["first_ms"] <= notes["p50_ms"] <= long[name][0].value <= notes["last_ms"]
    assert long["timers-at-once"][0].notes["first_ms"] >= 0


@pytest.mark.parametrize("words", [["producer"], ["slow-brokers", "producer"]])
def test_slow_brokers_are_part_of_the_figures_of_producers_and_come_last(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
):
    order: list[Any] = []
    monkeypatch.setattr("sys.argv", ["bench", *words])
    monkeypatch.setattr(command, "measured", lambda options: order.append(options) or 0)
    monkeypatch.setattr(slow_brokers, "main", lambda given: order.append(given) or 0)
    assert command.main() == 0
    (options, given) = order
    assert isinstance(options, argparse.Namespace)
    assert (options.names, options.seconds, given) == (["producer"], command.SAMPLE_SECONDS, [])


# --- what counts as a figure


def test_messages_that_do_not_arrive_and_those_that_nobody_sent_make_no_figure(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("benchmarks.arrivals.WITHIN", 0.05)
    with Wire(ground.site.broker) as wire:
        arrived = Arrivals(task_of("trio-64", ground))
        for queue in (0, 1, 1):
            wire.ask(send_frame(SEND_TOPIC, queue, BODY))
        arrived.check(3)
        with pytest.raises(BenchmarkError, match=f"4 messages were sent to {SEND_TOPIC}, and 3 have arrived"):
            arrived.check(4)
        with pytest.raises(BenchmarkError, match=f"2 messages were sent to {SEND_TOPIC}, and 3 have arrived"):
            arrived.check(2)


@pytest.mark.slow
def test_a_peer_that_says_it_has_sent_what_did_not_arrive_has_no_figure(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("benchmarks.arrivals.WITHIN", 0.05)

    class Lying(Peer):
        def measure_fresh(self, shape: str, task: Task, warm: int) -> Outcome:
            with Wire(task.broker) as wire:
                wire.ask(send_frame(task.topic, 0, BODY))
            return Outcome(9.0, 1, sent=self.told)

    work = next(work for work in works() if work.shape == "transact-64")
    for told in (1, 2):
        peer = Lying("java", None, None)  # type: ignore[arg-type]  it asks no process
        object.__setattr__(peer, "told", told)
        if told == 1:
            assert work.take(replace(ground, peer=peer)).value == 9.0
        else:
            with pytest.raises(BenchmarkError, match="2 messages were sent"):
                work.take(replace(ground, peer=peer))
    assert {each.shape for each in works() if each.counted} == {
        "auto-batch",
        "auto-threads-64",
        "transact-one",
        "transact-64",
    }


@pytest.mark.slow
def test_sends_that_are_not_traced_make_no_figure_of_tracing(ground: Ground):
    task = task_of("traced-64", ground)
    with pytest.raises(BenchmarkError, match="120 sends were traced, and 0 are recorded"):
        traced.measure(lambda task: Outcome(1.0, 60), task)


# --- promises

_TRIES = 3


@contextmanager
def _reading(site: Site) -> Iterator[tuple[Wire, list[int]]]:
    with Wire(site.broker) as wire:
        yield wire, ends(wire, SEND_TOPIC, QUEUES)


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, pytest.param(closing.IN_FLIGHT, marks=pytest.mark.matrix)])
@pytest.mark.parametrize("settings", [{}, {"linger": 0.01}], ids=["", "linger"])
@pytest.mark.parametrize("way", ["tasks", "futures"])
def test_closing_answers_every_send_in_flight_and_loses_nothing_acknowledged(
    site: Site, way: str, settings: dict[str, Any], count: int
):
    with _reading(site) as (wire, begins):
        for _ in range(_TRIES):  # on a busy machine, the broker may have answered nearly all of them already
            if way == "futures":
                closed = closing.futures(site.namesrv, SEND_TOPIC, count, **settings)
            else:
                closed = trio.run(lambda: closing.tasks(site.namesrv, SEND_TOPIC, count, **settings))
            if closed.in_flight > count // 10:
                break
        assert closed.in_flight > count // 10
        assert closed.unanswered == 0
        assert not closing.lost(wire, SEND_TOPIC, begins, closed.acknowledged, f"{way}{count}")
        assert closing.lost(wire, SEND_TOPIC, begins, {"never sent"}, f"{way}{count}") == {"never sent"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [
        2_000,
        pytest.param(50_000, marks=pytest.mark.matrix),
        pytest.param(100_000, marks=(pytest.mark.matrix, pytest.mark.nightly)),
    ],
)
def test_the_memory_of_a_producer_stays_flat(site: Site, count: int):
    (bar,) = (bar for bar in PRODUCER_BARS if bar.figure.row == growth.SHAPE.name)
    warmed, sent, grown = trio.run(growth.grow, site.namesrv, SEND_TOPIC, count, min(count, 10_000))
    assert (warmed, sent) == (min(count, 10_000), count)
    assert judge(bar, {(growth.SHAPE.name, OURS.name): [Outcome(grown, sent)]}, {}).word == REACHED
