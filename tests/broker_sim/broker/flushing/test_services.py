"""Background flushing: by interval, pages and time; and nothing at all while nothing is written."""

from __future__ import annotations

import errno
import itertools

import pytest
import trio
from trio.testing import MockClock

from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.flushing import flusher
from rocketpy_broker_sim.store.checkpoint import read_checkpoint
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import bodies, broker_and_client

MADE_AHEAD = f"commitlog/{1024 * 1024:020d}"


class Synced:
    """When which files were flushed, in seconds since this was made."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.times: list[tuple[float, str]] = []
        self._began = trio.current_time()
        storage.fault = self._note

    def _note(self, operation: str, path: str, size: int) -> None:
        if operation == "fdatasync" and path != MADE_AHEAD:
            self.times.append((round(trio.current_time() - self._began, 3), path.split("/")[0]))

    def of(self, what: str) -> list[float]:
        return [time for time, path in self.times if path == what]


async def test_no_message_waits_longer_than_an_interval(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        synced = Synced(storage)
        for _ in range(3):
            await client.send()
            await trio.sleep(1)
        assert synced.of("commitlog") == [0.5, 1.5, 2.5]


async def test_few_pages_wait_for_the_thorough_flush(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_commit_log_least_pages=4) as (_, client):
        synced = Synced(storage)
        await client.send()  # long ago was the last thorough flush: this is one
        await trio.sleep(1.1)
        await client.send()
        await trio.sleep(20)
        await client.send()
        await trio.sleep(0.6)
        assert synced.of("commitlog") == [0.5, 10.5, 21.6]


async def test_enough_pages_are_flushed_every_interval(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        synced = Synced(storage)
        for _ in range(30):
            await client.send(body=bytes(5000))
            await trio.sleep(0.1)
        times = synced.of("commitlog")
        assert times[0] == 0.5
        assert all(0.4 < later - earlier < 0.7 for earlier, later in itertools.pairwise(times))
        assert times[-1] > 2.4
        assert broker.store.flushed_position >= broker.store.written_position - 6 * 6000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"flush_commit_log_timed": False, "wake_flush_when_put_message": True}, [0.0, 0.1, 0.2]),
        ({"flush_commit_log_timed": True, "wake_flush_when_put_message": True}, [0.5]),
        ({"flush_commit_log_timed": False}, [0.5]),
        ({"flush_interval_commit_log": 100}, [0.1, 0.2, 0.3]),
    ],
)
async def test_what_wakes_the_flush(autojump_clock: MockClock, settings: dict, expected: list[float]) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, flush_commit_log_least_pages=0, **settings) as (_, client):
        synced = Synced(storage)
        for _ in range(3):
            await client.send()
            await trio.sleep(0.1)
        await trio.sleep(0.6)
        assert synced.of("commitlog") == expected


async def test_queues_with_few_units_are_flushed_once_a_minute(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage, max_message_size=4_000_000) as (broker, client):
        await client.send()
        await trio.sleep(2)
        synced = Synced(storage)
        for _ in range(30):
            await client.send()
            await trio.sleep(5)
        assert synced.of("consumequeue") == [59.0, 119.0]
        assert synced.of("checkpoint")
        checkpoint = read_checkpoint(storage)
        assert checkpoint.dispatched < checkpoint.flushed <= broker.store.written_position


async def test_queues_with_two_pages_are_flushed_every_second(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send()
        await trio.sleep(2)
        synced = Synced(storage)
        for _ in range(450):
            await client.send()
        await trio.sleep(3)
        assert synced.of("consumequeue") == [1.0]


@pytest.mark.slow
async def test_an_idle_broker_flushes_nothing_and_its_services_sleep(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await client.send()
        await trio.sleep(120)
        assert broker.store.flushed_position == broker.store.written_position
        assert read_checkpoint(storage).dispatched == broker.store.written_position
        synced = Synced(storage)
        await trio.sleep(24 * 3600)
        assert synced.times == []


async def test_threat_L9_after_a_failed_flush_sends_are_refused_in_every_mode(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send(body=b"kept")
        with storage.failing("fdatasync", code=errno.EIO):
            await trio.sleep(1)
        assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        await trio.sleep(100)
        assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await client.pull()) == [b"kept"]
        said = [each.getMessage() for each in caplog.records if each.name == flusher.__name__]
        assert len(said) == 1, "once, though neither the log nor the queues can be flushed any more"
        assert "flushing the commit log" in said[0]
    async with broker_and_client(storage=storage) as (_, client):
        assert (await client.send()).code == 0


async def test_threat_L9_a_queue_that_fails_to_flush_counts_too(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send()
        with storage.failing("fdatasync", code=errno.EIO, under="consumequeue"):
            await trio.sleep(2)
        assert (await client.send()).code == ResponseCode.SERVICE_NOT_AVAILABLE
