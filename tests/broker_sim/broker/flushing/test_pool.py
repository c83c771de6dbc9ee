"""The transient pool in a broker: what is moved when, who sees it, and what a full pool answers."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.route import KVTable
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client
from tests.virtual_time import loop_time

POOL = {"transient_store_pool_enable": True}


async def test_a_message_is_seen_after_two_hundred_milliseconds(autojump_clock: MockClock) -> None:
    async with broker_and_client(**POOL) as (broker, client):
        began = trio.current_time()
        assert (await client.send(body=b"first")).code == 0
        assert trio.current_time() == began
        assert broker.store.written_position == 0
        answer = await client.pull(sys_flag=SUBSCRIPTION | SUSPEND)
        assert bodies(answer) == [b"first"]
        assert 0.2 <= trio.current_time() - began < 0.25
        await trio.sleep(0.6)
        assert broker.store.flushed_position == broker.store.written_position


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, 0.0), ({"wake_commit_when_put_message": False}, 0.2), ({"commit_commit_log_least_pages": 100}, 0.2)],
)
async def test_four_pages_are_moved_at_once(autojump_clock: MockClock, settings: dict, seconds: float) -> None:
    async with broker_and_client(**POOL, **settings) as (_, client):
        began = trio.current_time()
        await client.send(body=bytes(20_000))
        answer = await client.pull(sys_flag=SUBSCRIPTION | SUSPEND)
        assert len(bodies(answer)) == 1
        assert trio.current_time() - began == pytest.approx(seconds, abs=0.01)


async def test_a_pool_without_a_free_buffer_answers_busy_until_the_disk_takes_it(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    sizes = {"mapped_file_size_commit_log": 65536, "transient_store_pool_size": 2}
    async with broker_and_client(storage=storage, **POOL, **sizes) as (broker, client):

        async def table() -> dict[str, str]:
            return KVTable.decode((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table

        assert (await table())["remainTransientStoreBufferNumbs"] == "2"
        codes = []
        with storage.failing("pwrite", under="commitlog"):
            while len(codes) < 40 and (not codes or codes[-1] == 0):
                codes.append((await client.send(body=bytes(10_000))).code)
            assert codes[-1] == ResponseCode.SYSTEM_BUSY
            assert len(codes) > 6
            assert (await table())["remainTransientStoreBufferNumbs"] == "0"
            assert (await table())["remainHowManyDataToCommit"].endswith("KiB")
            assert bodies(await client.pull()) == []
            await trio.sleep(3)
        await trio.sleep(1)
        assert (await client.send(body=b"again")).code == 0
        await trio.sleep(1)
        assert broker.store.reads.max_offset("T", 0) == len(codes)
        assert (await table())["remainHowManyDataToCommit"] == "0 B"
        await trio.sleep(1)
        assert broker.store.flushed_position == broker.store.written_position


async def test_a_broker_that_stops_loses_nothing_and_a_killed_one_the_last_moment(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, **POOL) as (broker, client):
        await client.send(body=b"stopped")
    async with broker_and_client(storage=storage, **POOL) as (broker, client):
        await client.send(body=b"moved")
        await trio.sleep(0.3)
        await client.send(body=b"lost")
        broker.kill()
    async with broker_and_client(storage=storage, **POOL) as (_, client):
        assert bodies(await client.pull()) == [b"stopped", b"moved"]
        await client.send(body=b"next")
        await trio.sleep(0.3)
        assert bodies(await client.pull()) == [b"stopped", b"moved", b"next"]


async def test_delayed_messages_come_through_the_buffers(autojump_clock: MockClock) -> None:
    with wall_clock(loop_time(1_700_000_000_000)):
        async with broker_and_client(**POOL) as (_, client):
            began = trio.current_time()
            await client.send(body=b"later", properties="DELAY\x011\x02")
            answer = await client.pull(sys_flag=SUBSCRIPTION | SUSPEND)
            assert bodies(answer) == [b"later"]
            assert 1 <= trio.current_time() - began < 2


async def test_progress_of_delays_is_never_ahead_of_what_was_delivered(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    settings = {"commit_commit_log_thorough_interval": 60_000, "commit_commit_log_least_pages": 1000}
    with wall_clock(loop_time(1_700_000_000_000)):
        async with broker_and_client(storage=storage, **POOL) as (_, client):
            await client.send(body=b"later", properties="DELAY\x012\x02")
            await trio.sleep(1)
        async with broker_and_client(storage=storage, **POOL, **settings) as (broker, _):
            await trio.sleep(7)
            await broker.delays.schedule.save()
            broker.kill()
        async with broker_and_client(storage=storage, **POOL) as (_, client):
            await trio.sleep(10)
            assert bodies(await client.pull()) == [b"later"]


@pytest.mark.slow
async def test_an_idle_pool_does_nothing(autojump_clock: MockClock) -> None:
    async with broker_and_client(**POOL) as (broker, client):
        await client.send()
        await trio.sleep(2 * 3600)
        assert broker.store.written_position == broker.store.buffered_position > 0
