"""The cost of an idle consumer: how often it wakes up, and what share of a core that takes.

Virtual time skips only the waiting, so an hour of it costs as much as a real hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import RocketMQError
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from tests.consumer.brokers import queue, world
from tests.pace import slowness
from tests.system import consuming

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
IDLE, BUSY = 0.001, 0.05
"""Shares of an ordinary core that an idle consumer may take, together with the broker that answers it."""
MINUTES = 15
STEPS = 12
"""Steps of tasks in a second, in a consumer of five queues and its broker: heartbeats, held pulls, commits."""


async def listener(_: object) -> None:
    """Takes everything."""


def pushing(w: Any, **settings: Any) -> Any:
    consumer = w.consumer(**settings)
    consumer.subscribe("Orders", listener)
    return consumer


def in_order(w: Any, **settings: Any) -> Any:
    return pushing(w, orderly=True, **settings)


def polling(w: Any, **settings: Any) -> Any:
    consumer = w.lite(**settings)
    consumer.subscribe("Orders")
    return consumer


KINDS = pytest.mark.parametrize("make", [pushing, polling])
Make = Callable[..., Any]


class Steps(trio.abc.Instrument):
    """Counts steps of tasks."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


@contextmanager
def costs(at_most: float) -> Iterator[Steps]:
    """Check that a block takes at most this share of an ordinary core, by the clock of its loop."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    began, worked = trio.current_time(), time.thread_time()
    yield steps
    worked, lasted = time.thread_time() - worked, trio.current_time() - began
    trio.lowlevel.remove_instrument(steps)
    assert worked <= at_most * lasted or worked / slowness() <= at_most * lasted, f"{worked:.2f} s in {lasted:.0f} s"


@pytest.mark.slow
@pytest.mark.parametrize("make", [pushing, in_order, polling])
async def test_threat_L5_an_idle_consumer_seldom_wakes_up(autojump_clock: MockClock, make: Make) -> None:
    async with consuming.world() as w:
        await w.send(8)
        async with make(w):
            await trio.sleep(60)
            with costs(at_most=IDLE) as steps:
                await trio.sleep(MINUTES * 60)
            assert MINUTES * 60 < steps.count <= MINUTES * 60 * STEPS


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("code", [ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED])
async def test_threat_L5_answers_that_bring_nothing_are_spaced(
    autojump_clock: MockClock, code: int, make: Make
) -> None:
    async with world() as w:

        def nothing(request: RemotingCommand, header: PullMessageRequestHeader) -> RemotingCommand:
            return w.broker.answer_pull(request, code, header.queue_offset)

        w.broker.script = [nothing] * 10_000
        async with make(w, consume_from_where=FIRST):
            with costs(at_most=BUSY):
                await trio.sleep(20)
            times = w.broker.times()
            assert 100 < len(times) <= 20 / 0.02 + 5
            assert all(after - before >= 0.0199 for before, after in pairwise(times[4:]))


@KINDS
async def test_threat_L5_errors_are_waited_out(autojump_clock: MockClock, make: Make) -> None:
    async with world() as w:
        w.broker.script = [ResponseCode.SYSTEM_ERROR] * 10_000
        async with make(w, consume_from_where=FIRST, pull_time_delay_when_exception=2) as consumer:
            with costs(at_most=BUSY):
                await trio.sleep(20)
            assert len(w.broker.pulls) <= 22
            assert isinstance(consumer.status().queues[queue()].error, RocketMQError)


@KINDS
async def test_a_pull_that_a_broker_may_hold_for_minutes_is_not_overdue(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, make: Make
) -> None:
    async with world() as w:
        async with make(
            w, consume_from_where=FIRST, broker_suspend_max_time=600.0 - 1, consumer_timeout_when_suspend=600.0
        ) as consumer:
            await trio.sleep(595)
            assert w.broker.pulled() == [0]
            assert "has not been pulled" not in caplog.text
            [puller] = [each for each in consumer._running.assignment if each.queue == queue()]
            puller.stop()
            await trio.sleep(70)
            assert "has not been pulled for 633 seconds" in caplog.text
            assert w.broker.pulled() == [0, 0]


@KINDS
async def test_a_queue_is_not_overdue_in_the_pause_after_a_pull_that_failed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, make: Make
) -> None:
    async with world() as w:
        w.broker.script = [ResponseCode.SYSTEM_ERROR]
        async with make(w, consume_from_where=FIRST, pull_time_delay_when_exception=200.0):
            await trio.sleep(195)
            assert w.broker.pulled() == [0]
            assert "has not been pulled" not in caplog.text
            await trio.sleep(20)
            assert w.broker.pulled() == [0, 0]
