"""A wall clock that jumps while a broker runs: its timers take no notice."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.codes import ResponseCode
from tests.broker_sim.broker.flushing import test_flusher as hanging
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client
from tests.broker_sim.store.test_clock import JUMPS, NOW


@pytest.mark.parametrize("jump", JUMPS)
async def test_threat_L10_timers_run_on_the_monotonic_clock(autojump_clock: MockClock, jump: str) -> None:
    now = NOW
    with wall_clock(lambda: now):
        async with broker_and_client() as (broker, client):
            await client.send(body=b"before")
            began = trio.current_time()
            now = JUMPS[jump]
            await trio.sleep(0.6)
            assert broker.store.flushed_position == broker.store.written_position  # after half a second, as ever
            empty = await client.pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=20_000)
            assert bodies(empty) == []
            assert 20 <= trio.current_time() - began < 26
            await client.send(body=b"after")
            assert bodies(await client.pull()) == [b"before", b"after"]
            times = [broker.store.reads.store_time("T", 0, offset) for offset in range(2)]
            assert times == sorted(times)


@pytest.mark.parametrize("jump", ["back 1 ms", "back 1 h", "back 1 day", "1970"])
async def test_threat_L10_a_sync_flush_times_out_by_the_monotonic_clock(
    autojump_clock: MockClock, monkeypatch, jump: str
) -> None:
    now = NOW
    with wall_clock(lambda: now):
        async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (_, client):
            await client.send()
            monkeypatch.setattr(hanging.flusher, "run_blocking", hanging.Hanging(20))
            began = trio.current_time()
            now = JUMPS[jump]
            assert (await client.send()).code == ResponseCode.FLUSH_DISK_TIMEOUT
            assert 5 <= trio.current_time() - began < 5.1
            await trio.sleep(30)
