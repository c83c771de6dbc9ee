"""Warnings about peers are bounded for each host and in all, and the last count is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.logs import get_logger
from rocketpy.remoting.peer_log import PeerLog
from rocketpy.remoting.timers import Timers

if TYPE_CHECKING:
    import pytest
    from trio.testing import MockClock

logger = get_logger("tests.peer_log")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


async def test_the_last_count_is_told_when_the_interval_is_over(
    clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    timers = Timers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        peers = PeerLog(logger, timers=timers)
        for _ in range(10):
            peers.warn("10.0.0.1", "bad frame")
        await trio.sleep(59)
        assert lines(caplog) == ["10.0.0.1: bad frame"]
        await trio.sleep(2)
        assert lines(caplog)[1:] == ["not logged: 9 more lines about peers"]
        await trio.sleep(1000)
        assert len(caplog.records) == 2
        nursery.cancel_scope.cancel()


async def test_many_hosts_get_sixty_lines_together(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    timers = Timers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run)
        peers = PeerLog(logger, timers=timers)
        for host in range(5000):
            peers.warn(f"10.0.{host // 250}.{host % 250}", "bad frame")
        assert len(caplog.records) == 60
        await trio.sleep(61)
        assert lines(caplog)[60:] == ["not logged: 4940 more lines about peers"]
        peers.warn("10.9.9.9", "bad frame")
        assert lines(caplog)[61:] == ["10.9.9.9: bad frame"]
        nursery.cancel_scope.cancel()


async def test_at_the_end_all_is_told(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    peers = PeerLog(logger)
    for _ in range(3):
        peers.warn("10.0.0.1", "bad frame")
    peers.tell()
    peers.tell()
    assert lines(caplog) == ["10.0.0.1: bad frame", "not logged: 2 more lines about peers"]
