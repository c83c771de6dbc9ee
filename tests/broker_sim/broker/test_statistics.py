"""Sums and rates of a broker, in virtual time; days by a wall clock that goes with it."""

from __future__ import annotations

import datetime
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy_broker_sim.broker.statistics import BrokerStatistics, Totals
from tests.virtual_time import loop_time

NOON = int(datetime.datetime(2026, 5, 4, 12).astimezone().timestamp() * 1000)
DAY = 24 * 3600


@asynccontextmanager
async def counting(began: int = NOON) -> AsyncIterator[BrokerStatistics]:
    with wall_clock(loop_time(began)):
        statistics = BrokerStatistics(trio.current_time)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(statistics.serve)
            await trio.testing.wait_all_tasks_blocked()
            yield statistics
            nursery.cancel_scope.cancel()


def put(totals: Totals) -> int:
    return totals.put


async def test_sums_are_of_what_was_counted(autojump_clock: MockClock) -> None:
    async with counting() as statistics:
        statistics.note_put(3)
        statistics.note_get(2)
        statistics.note_get(0)
        assert statistics.totals() == Totals(put=3, found=1, missed=1, transferred=2)


async def test_what_a_start_finds_in_the_log_was_not_put_just_now(autojump_clock: MockClock) -> None:
    statistics = BrokerStatistics(trio.current_time)
    statistics.note_put(100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(statistics.serve)
        await trio.testing.wait_all_tasks_blocked()
        assert statistics.totals() == Totals()
        nursery.cancel_scope.cancel()


async def test_rates_are_of_the_last_seconds(autojump_clock: MockClock) -> None:
    async with counting() as statistics:
        assert statistics.rate(put, 10) == 0
        for _ in range(100):
            statistics.note_put(5)
            await trio.sleep(1)
        assert 4.5 <= statistics.rate(put, 10) <= 5.5
        assert 4.9 <= statistics.rate(put, 60) <= 5.1
        assert statistics.rate(put, 600) == pytest.approx(500 / 600)
        await trio.sleep(30)
        assert statistics.rate(put, 10) == 0
        assert 2.4 <= statistics.rate(put, 60) <= 2.6


@pytest.mark.slow
async def test_an_idle_broker_keeps_nothing_and_a_busy_one_not_for_ever(autojump_clock: MockClock) -> None:
    async with counting() as statistics:
        statistics.note_put(1)
        await trio.sleep(100)
        assert len(statistics._kept) == 3
        for _ in range(2000):
            statistics.note_get(1)
            await trio.sleep(1)
        assert len(statistics._kept) == 660
        assert statistics.rate(lambda totals: totals.found, 600) == pytest.approx(1, abs=0.003)


async def test_sums_of_the_morning_become_those_of_yesterday(autojump_clock: MockClock) -> None:
    async with counting() as statistics:
        assert statistics.mornings() == (Totals(), Totals())
        statistics.note_put(1)
        await trio.sleep(DAY)
        assert statistics.mornings() == (Totals(put=1), Totals())
        statistics.note_put(2)
        await trio.sleep(DAY)
        assert statistics.mornings() == (Totals(put=3), Totals(put=1))
        await trio.sleep(5 * DAY)
        assert statistics.mornings() == (Totals(put=3), Totals(put=3))


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nine hours ahead of Greenwich."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
async def test_the_day_ends_at_midnight_of_the_local_time(autojump_clock: MockClock) -> None:
    eleven = datetime.datetime(2026, 5, 4, 14, tzinfo=datetime.UTC)
    async with counting(int(eleven.timestamp() * 1000)) as statistics:
        statistics.note_put(1)
        await trio.sleep(3500)
        assert statistics.mornings() == (Totals(), Totals())
        await trio.sleep(200)
        assert statistics.mornings() == (Totals(put=1), Totals())
