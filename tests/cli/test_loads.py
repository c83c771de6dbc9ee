"""The load that `rocketpy bench` puts on a topic, and the percentiles that it tells."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from rocketpy import ConfigError, Message, MessageExt, RequestTimeoutError
from rocketpy.cli.traffic.latencies import Latencies
from rocketpy.cli.traffic.loads import STOP_AFTER, Load, Plan, Received, Span


class Producer:
    """Takes a time for each request; what is in `stalls` takes longer, by its number from 1."""

    def __init__(self, seconds: float = 0.1, stalls: dict[int, float] | None = None) -> None:
        self.seconds = seconds
        self.stalls = stalls or {}
        self.sent: list[Message] = []
        self.requests = self.now = self.most = 0
        self.error: Exception | None = None

    async def send(self, message: Message) -> None:
        await self.send_batch([message])

    async def send_batch(self, messages: Sequence[Message]) -> None:
        self.requests += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await trio.sleep(self.stalls.get(self.requests, self.seconds))
        self.now -= 1
        if self.error is not None:
            raise self.error
        self.sent += messages


def load(producer: Producer, told: list[Span] | None = None, **plan: object) -> Load:
    each_second = (lambda span: None) if told is None else told.append
    return Load(producer, Plan(topic="Orders", **plan), each_second)  # type: ignore[arg-type]


async def test_so_many_messages_as_fast_as_it_goes(autojump_clock: MockClock) -> None:
    producer, told = Producer(), list[Span]()
    one = load(producer, told, messages=105, size=100, in_flight=4, tags="t")
    await one.send()
    assert (len(producer.sent), producer.most) == (105, 4)
    assert {(len(each.body), each.tags, each.topic) for each in producer.sent} == {(100, "t", "Orders")}
    assert (one.total.messages, one.total.size, one.total.failed) == (105, 10_500, 0)
    assert one.total.seconds == pytest.approx(2.7)
    assert len(told) == 3
    assert sum(each.messages for each in told) == 105
    assert one.total.latencies.mean == pytest.approx(0.1)


async def test_a_rate_for_some_seconds(autojump_clock: MockClock) -> None:
    producer, told = Producer(0.01), list[Span]()
    one = load(producer, told, rate=50, seconds=3)
    await one.send()
    assert len(producer.sent) == 150
    assert len(told) in (3, 4)
    assert one.total.latencies.longest == pytest.approx(0.01)


async def test_a_stall_shows_in_all_messages_that_it_delays(autojump_clock: MockClock) -> None:
    one = load(Producer(0.001, {11: 1.0}), rate=100, messages=200, in_flight=1)
    await one.send()
    late = [share for share in (0.5, 0.75, 0.9) if one.total.latencies.percentiles([share])[0] > 0.2]
    assert late == [0.75, 0.9]  # one of 200 sends was slow, and a hundred messages had to wait for it
    assert one.total.latencies.longest == pytest.approx(1.0, rel=0.02)


async def test_batches(autojump_clock: MockClock) -> None:
    producer = Producer()
    one = load(producer, messages=25, batch=10, in_flight=1)
    await one.send()
    assert (producer.requests, one.total.messages, one.total.latencies.count) == (3, 25, 25)


async def test_failures_are_counted_and_end_it_if_nothing_else_comes(autojump_clock: MockClock) -> None:
    producer = Producer()
    producer.error = RequestTimeoutError("too late")
    one = load(producer, messages=1_000, in_flight=1)
    with pytest.raises(ExceptionGroup) as caught:
        await one.send()
    assert caught.group_contains(RequestTimeoutError)
    assert (producer.requests, one.error) == (STOP_AFTER, producer.error)
    assert one.total.failed == STOP_AFTER


async def test_messages_are_seen_to_arrive(autojump_clock: MockClock) -> None:
    producer = Producer()
    one = load(producer, messages=3, in_flight=1, size=64)
    await one.send()
    received = Received(one.run)
    bodies = [each.body for each in producer.sent]
    await trio.sleep(1)
    received.note([MessageExt("Orders", body) for body in [b"of somebody else", *bodies[:2]]])
    assert (received.latencies.count, received.latencies.longest) == (2, pytest.approx(1.3))
    began = trio.current_time()
    await received.wait(3, 5)
    assert trio.current_time() - began == pytest.approx(5)
    received.note([MessageExt("Orders", bodies[2])])
    await received.wait(3, 5)
    assert trio.current_time() - began == pytest.approx(5)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"messages": 0},
        {"messages": 1, "size": 10},
        {"messages": 1, "size": 1 << 30},
        {"messages": 1, "rate": 0},
        {"messages": 1, "rate": float("nan")},
        {"seconds": -1},
        {"messages": 1, "in_flight": 0},
        {"messages": 1, "batch": 100_000},
    ],
)
def test_plans_that_cannot_be_carried_out(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Plan(topic="Orders", **wrong)  # type: ignore[arg-type]


# --- percentiles ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=200))
def test_percentiles_are_at_most_one_percent_too_high(durations: list[float]) -> None:
    found = Latencies()
    for each in durations:
        found.add(each)
    ordered = sorted(durations)
    shares = [0.01, 0.5, 0.95, 0.999, 1.0]
    for share, percentile in zip(shares, found.percentiles(shares), strict=True):
        exact = next(each for number, each in enumerate(ordered, 1) if number >= share * len(ordered))
        assert exact * 0.9999 <= percentile <= exact * 1.0101
    assert found.longest == max(durations)


def test_latencies_are_merged() -> None:
    chance = random.Random(1)
    parts = [Latencies() for _ in range(3)]
    whole = Latencies()
    for part in parts:
        for _ in range(100):
            seconds = chance.expovariate(100)
            part.add(seconds, 2)
            whole.add(seconds, 2)
    merged = Latencies()
    for part in parts:
        merged.merge(part)
    assert merged.percentiles([0.5, 0.99]) == whole.percentiles([0.5, 0.99])
    assert (merged.count, merged.mean) == (600, pytest.approx(whole.mean))
    assert Latencies().percentiles([0.5]) == [0.0]
    assert Latencies().mean == 0.0
