"""The counters of requests by address."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from rocketpy.client.call import call
from rocketpy.errors import RequestTimeoutError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.remoting.request_meter import MOST_ADDRESSES, RequestMeter
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeServer

ASK, HOLD = 7001, 7002


def at_once(connection: Any, request: RemotingCommand) -> RemotingCommand:
    return request.answer()


async def test_requests_are_counted_with_their_time_and_those_without_an_answer_as_failed(autojump_clock: Any) -> None:
    network = MemoryNetwork(delay=0.05)
    server = FakeServer({ASK: at_once, RequestCode.PULL_MESSAGE: at_once, HOLD: lambda connection, request: None})
    async with server.open(network), ConnectionPool(network).open() as pool:
        ask = partial(call, pool, server.address, timeout=3)
        for _ in range(6):
            await ask(RemotingCommand(ASK))
        await ask(RemotingCommand(RequestCode.PULL_MESSAGE))
        found = pool.meter.of(server.address)
        assert (found.answered, found.failed, found.latency.count) == (6, 0, 6)
        assert found.latency.maximum == pytest.approx(0.1)
        assert found.per_second == pytest.approx(0.6)
        assert pool.meter.of("nobody:1").answered == 0
        with pytest.raises(RequestTimeoutError):
            await ask(RemotingCommand(HOLD))
        assert (pool.meter.total().answered, pool.meter.total().failed) == (6, 1)
        await trio.sleep(80)
        assert pool.meter.total().per_second == pool.meter.total().latency.count == 0
        assert pool.meter.total().answered == 6


async def test_more_addresses_than_are_counted_apart_are_in_the_sum(autojump_clock: Any) -> None:
    meter = RequestMeter()
    assert meter.total().answered == 0
    meter.open()
    for number in range(MOST_ADDRESSES + 5):
        meter.note_answered(f"host:{number}", 0.1)
    assert meter.total().answered == MOST_ADDRESSES + 5
    assert meter.of(f"host:{MOST_ADDRESSES + 1}").answered == 0
