"""MQFaultStrategy: the tables of both releases, resting brokers, one probe, always somebody to send to."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rocketpy.client.fault import MQFaultStrategy
from rocketpy.client.sends.selection import select_queue
from rocketpy.config import LatencyTable
from rocketpy.message import MessageQueue

VECTORS = Path(__file__).parent.parent / "golden" / "vectors_java.json"
TABLES = {
    "fault_not_available_ms_4.9.7": LatencyTable.RELEASE_4,
    "fault_not_available_ms_5.3.3": LatencyTable.RELEASE_5,
}
QUEUES = [MessageQueue("T", name, number) for name in ("a", "b", "c") for number in range(4)]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def strategy(clock: Clock, table: LatencyTable = LatencyTable.RELEASE_4) -> MQFaultStrategy:
    return MQFaultStrategy(clock, enabled=True, table=table)


def brokers(fault: MQFaultStrategy, counter: Iterator[int], sends: int, avoid: str | None = None) -> list[str]:
    return [select_queue(QUEUES, counter, avoid=avoid, fault=fault).broker_name for _ in range(sends)]


def vectors() -> list[tuple[str, int, int]]:
    cases = json.loads(VECTORS.read_text("utf-8"))["cases"]
    return [(case["case"], case["input"], case["output"]) for case in cases if case["case"] in TABLES]


@pytest.mark.parametrize(("case", "latency", "expected"), vectors())
def test_tables_agree_with_java(case: str, latency: int, expected: int) -> None:
    assert TABLES[case].not_available_for(latency) == expected


def test_the_golden_cases_are_there() -> None:
    assert len(vectors()) == 37


@pytest.mark.parametrize(
    ("table", "rests_for"), [(LatencyTable.RELEASE_4, 600.0), (LatencyTable.RELEASE_5, 10.0)], ids=["4.x", "5.x"]
)
def test_a_send_that_failed_counts_as_the_isolation_of_the_table(
    clock: Clock, table: LatencyTable, rests_for: float
) -> None:
    fault = strategy(clock, table)
    fault.update("a", 0.001, isolation=True)
    clock.now += rests_for - 0.001
    assert not fault.is_available("a")
    clock.now += 0.002
    assert fault.is_available("a")


def test_switched_off_nothing_is_remembered(clock: Clock) -> None:
    fault = MQFaultStrategy(clock)
    fault.update("a", 60.0, isolation=True, reachable=False)
    assert fault.is_available("a")
    assert fault.items() == []


def test_slow_broker_is_passed_over_then_comes_back(clock: Clock) -> None:
    fault = strategy(clock)
    counter = itertools.count()
    fault.update("a", 0.7)
    assert set(brokers(fault, counter, 24)) == {"b", "c"}
    clock.now += 30.001
    assert brokers(fault, counter, 24).count("a") == 1, "the first send after the rest is the probe"
    fault.update("a", 0.0)
    assert set(brokers(fault, counter, 12)) == {"a", "b", "c"}
    assert fault.items() == []


def test_a_probe_that_fails_means_another_rest(clock: Clock) -> None:
    fault = strategy(clock)
    counter = itertools.count()
    fault.update("a", 0.7)
    clock.now += 31
    assert brokers(fault, counter, 12).count("a") == 1
    fault.update("a", 2.5)
    clock.now += 119
    assert "a" not in brokers(fault, counter, 12)
    clock.now += 2
    assert brokers(fault, counter, 12).count("a") == 1


def test_a_probe_that_nobody_reports_is_given_up(clock: Clock) -> None:
    fault = MQFaultStrategy(clock, enabled=True, probe_timeout=3.0)
    counter = itertools.count()
    fault.update("a", 0.7)
    clock.now += 31
    assert brokers(fault, counter, 12).count("a") == 1
    clock.now += 2.9
    assert "a" not in brokers(fault, counter, 12)
    clock.now += 0.2
    assert brokers(fault, counter, 12).count("a") == 1


def test_sends_that_were_under_way_do_not_clear_a_fault(clock: Clock) -> None:
    fault = strategy(clock)
    fault.update("a", 0.001, isolation=True)
    clock.now += 0.02
    fault.update("a", 0.04)
    assert not fault.is_available("a"), "that one began before the fault"
    clock.now += 0.04
    fault.update("a", 0.03)
    assert fault.is_available("a"), "this one began after it, and went well"


def test_a_short_fault_never_shortens_a_long_rest(clock: Clock) -> None:
    fault = strategy(clock)
    fault.update("a", 16.0)
    fault.update("a", 0.6)
    clock.now += 599
    assert not fault.is_available("a")


def test_when_all_rest_a_reachable_one_is_offered_and_not_the_last(clock: Clock) -> None:
    fault = strategy(clock)
    for name in "abc":
        fault.update(name, 3.0, isolation=True, reachable=name != "a")
    assert set(brokers(fault, itertools.count(), 24)) == {"b", "c"}
    assert set(brokers(fault, itertools.count(), 24, avoid="b")) == {"c"}


@pytest.mark.parametrize("isolation", [False, True])
def test_S13_when_all_rest_the_least_slow_is_offered(clock: Clock, *, isolation: bool) -> None:
    fault = strategy(clock)
    fault.update("a", 2.0)
    fault.update("b", 0.001 if isolation else 3.0, isolation=isolation)
    fault.update("c", 0.6)
    assert set(brokers(fault, itertools.count(), 24)) == {"c"}
    assert set(brokers(fault, itertools.count(), 24, avoid="c")) == {"a"}


def test_S13_of_many_that_rest_the_better_half_is_offered(clock: Clock) -> None:
    fault = strategy(clock)
    for number, name in enumerate("badc"):
        fault.update(name, 1.0 + number)
    queues = [MessageQueue("T", name, number) for name in "abcd" for number in range(4)]
    counter = itertools.count()
    assert {select_queue(queues, counter, fault=fault).broker_name for _ in range(32)} == {"a", "b"}


class Switching(Clock):
    """Lets other threads run whenever somebody looks."""

    def __call__(self) -> float:
        time.sleep(0)
        return self.now


def test_S13_one_probe_however_many_threads_choose_at_once() -> None:
    clock = Switching()
    fault = strategy(clock)
    counter, begin = itertools.count(), threading.Barrier(8)
    chosen: list[str] = []

    def choose() -> None:
        begin.wait(10)
        chosen.extend(brokers(fault, counter, 6))

    for turn in range(1, 11):
        fault.update("a", 0.7)
        clock.now += 31
        threads = [threading.Thread(target=choose) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert chosen.count("a") == fault.statistics().probes == turn
        fault.update("a", 0.0)


def test_when_nothing_is_left_somebody_is_offered_all_the_same(clock: Clock) -> None:
    fault = strategy(clock)
    for name in "abc":
        fault.update(name, 3.0, isolation=True, reachable=False)
    assert set(brokers(fault, itertools.count(), 24)) == {"a", "b", "c"}
    only_one: Sequence[MessageQueue] = [MessageQueue("T", "a", 0)]
    assert select_queue(only_one, itertools.count(), avoid="a", fault=fault) == only_one[0]


def test_threat_L8_brokers_that_no_route_names_are_forgotten(clock: Clock) -> None:
    fault = strategy(clock)
    fault.update("a", 1.0)
    fault.update("b", 1.0)
    fault.retain({"b", "c"})
    assert [item.broker_name for item in fault.items()] == ["b"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.floats(0, 60), st.booleans(), st.booleans(), st.floats(0, 700), st.booleans()
        ),
        max_size=40,
    )
)
def test_there_is_always_an_offer_and_never_two_probes(
    events: list[tuple[str, float, bool, bool, float, bool]],
) -> None:
    clock = Clock()
    fault = strategy(clock)
    counter = itertools.count()
    for name, elapsed, isolation, reachable, passed, avoid in events:
        fault.update(name, elapsed, isolation=isolation, reachable=reachable)
        clock.now += passed
        last = name if avoid else None
        held = {item.broker_name: item for item in fault.items()}
        healthy = set("abc") - set(held) - {last}
        recovering = {each for each, item in held.items() if item.available_at <= clock.now}
        chosen = brokers(fault, counter, 12, avoid=last)
        assert len(chosen) == 12
        if healthy:
            assert set(chosen) <= healthy | recovering
            assert all(chosen.count(each) <= 1 for each in recovering)
