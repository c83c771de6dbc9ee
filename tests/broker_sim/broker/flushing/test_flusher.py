"""Flushing: in the background, and before a send is answered where the settings ask for it."""

from __future__ import annotations

import errno

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.message_id import offset_of_message_id
from rocketpy_broker_sim.broker.flushing import flusher
from rocketpy_broker_sim.broker.flushing.flusher import StoreFlusher
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, bodies, broker_and_client


async def test_the_log_reaches_the_disk_in_the_background(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        assert (await client.send()).code == 0
        assert broker.store.flushed_position < broker.store.written_position
        await trio.sleep(1)
        assert broker.store.flushed_position == broker.store.written_position


async def test_ST7_many_sends_wait_for_one_flush(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    flushes: list[str] = []
    async with broker_and_client(storage=storage, flush_disk_type="SYNC_FLUSH") as (broker, client):
        storage.fault = lambda operation, path, size: flushes.append(path) if operation == "fdatasync" else None

        async def send() -> None:
            answer = await client.send()
            flushed = broker.store.flushed_position
            assert answer.code == 0
            assert offset_of_message_id(answer.ext_fields["msgId"]) < flushed

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(send)
        assert broker.store.flushed_position == broker.store.written_position
        assert len([path for path in flushes if path.startswith("commitlog")]) < 10
        assert len(bodies(await client.pull())) == 32


class Hanging:
    """A disk whose flush takes its time. Clusters of other tests, which run in threads, have another disk."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.token = trio.lowlevel.current_trio_token()

    async def __call__(self, function, *args):
        if trio.lowlevel.current_trio_token() is self.token:
            await trio.sleep(self.seconds)
        return function(*args)


class SlowToReturn:
    """A disk that has what was written when it was asked, and takes its time to say so."""

    def __init__(self) -> None:
        self.token = trio.lowlevel.current_trio_token()

    async def __call__(self, function, *args):
        result = function(*args)
        if trio.lowlevel.current_trio_token() is self.token:
            await trio.sleep(2)
        return result


async def test_ST7_a_flush_speaks_only_for_what_was_written_when_it_began(
    autojump_clock: MockClock, monkeypatch
) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (_, client):
        await client.send(body=b"before")
        monkeypatch.setattr(flusher, "run_blocking", SlowToReturn())
        began, answered = trio.current_time(), []

        async def send(after: float) -> None:
            await trio.sleep(after)
            assert (await client.send()).code == 0
            answered.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for after in (0, 1):
                nursery.start_soon(send, after)
        assert [round(seconds, 3) for seconds in answered] == [2, 4]


async def test_ST7_a_flush_that_takes_too_long_says_so_and_keeps_the_message(
    autojump_clock: MockClock, monkeypatch
) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH", sync_flush_timeout=5000) as (broker, client):
        await client.send(body=b"quick")
        monkeypatch.setattr(flusher, "run_blocking", Hanging(20))
        began = trio.current_time()
        answer = await client.send(body=b"slow")
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert answer.ext_fields["queueOffset"] == "1"
        assert 5 <= trio.current_time() - began < 5.1
        assert broker.storing.put_times.longest == 5000
        await trio.sleep(40)
        assert bodies(await client.pull()) == [b"quick", b"slow"]
        assert client.connection.statistics().unknown_answers == 0


async def test_K1_a_message_that_does_not_wait_is_answered_at_once(autojump_clock: MockClock, monkeypatch) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (_, client):
        monkeypatch.setattr(flusher, "run_blocking", Hanging(1))
        began = trio.current_time()
        assert (await client.send(properties="WAIT\x01false\x02")).code == 0
        assert trio.current_time() == began
        assert (await client.send(properties="WAIT\x01true\x02")).code == 0
        assert trio.current_time() > began


async def test_ST8_consumers_see_only_what_the_disk_has(autojump_clock: MockClock, monkeypatch) -> None:
    async with broker_and_client(flush_disk_type="SYNC_FLUSH") as (_, client):
        await client.send(body=b"first")
        answers = []

        async def pull() -> None:
            answer = await client.pull(offset=1, sys_flag=SUBSCRIPTION | SUSPEND)
            answers.append((trio.current_time(), answer))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pull)
            await wait_all_tasks_blocked()
            monkeypatch.setattr(flusher, "run_blocking", Hanging(2))
            began = trio.current_time()
            nursery.start_soon(client.send, "T", b"second")
        assert answers[0][0] - began >= 2
        assert bodies(answers[0][1]) == [b"second"]


async def test_ST8_without_sync_flush_they_see_what_the_disk_has_not(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send(body=b"first")
        assert bodies(await client.pull()) == [b"first"]
        assert broker.store.flushed_position == 0


async def test_threat_L9_a_disk_that_fails_to_flush_is_never_trusted_again(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()

    def broken(operation: str, path: str, size: int) -> None:
        if operation == "fdatasync":
            raise OSError(errno.EIO, "Input/output error")

    async with broker_and_client(storage=storage, flush_disk_type="SYNC_FLUSH") as (broker, client):
        await client.send(body=b"safe")
        storage.fault = broken
        assert (await client.send(body=b"unsafe")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert broker.storing.put_times.failed == 1
        storage.fault = None
        assert (await client.send(body=b"later")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await client.pull()) == [b"safe"]


async def test_only_one_flush_of_the_log_or_of_the_queues_runs_at_a_time(
    autojump_clock: MockClock, monkeypatch
) -> None:
    running: list[str] = []
    seen: set[str] = set()

    here = trio.lowlevel.current_trio_token()

    async def watched(function, *args):
        if trio.lowlevel.current_trio_token() is not here:
            return function(*args)  # a cluster of other tests, which runs in a thread
        assert function.__name__ not in running
        running.append(function.__name__)
        seen.add(function.__name__)
        await trio.sleep(3)
        running.remove(function.__name__)
        return function(*args)

    async with broker_and_client() as (broker, client):
        monkeypatch.setattr(flusher, "run_blocking", watched)
        assert isinstance(broker.storing.flusher, StoreFlusher)
        for _ in range(20):
            await client.send()
            await trio.sleep(0.7)
    assert seen == {"flush", "flush_queues"}
