"""The thread that waits for flushes: one call after the other, in order, and gone with its service."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import StoreError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.message_id import offset_of_message_id
from rocketpy_broker_sim.broker.flushing.thread import FlushThread
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.broker.kit import bodies, broker_and_client


async def until_open(thread: FlushThread) -> None:
    with trio.fail_after(30):
        while not thread.is_open:
            await trio.lowlevel.checkpoint()


async def opened(nursery: trio.Nursery) -> FlushThread:
    thread = FlushThread()
    nursery.start_soon(thread.serve)
    await until_open(thread)
    return thread


async def test_calls_run_in_one_other_thread() -> None:
    idents: list[int] = []
    async with trio.open_nursery() as nursery:
        thread = await opened(nursery)
        for _ in range(50):
            await thread.run(lambda: idents.append(threading.get_ident()))
        nursery.cancel_scope.cancel()
    assert len(idents) == 50
    assert len({*idents, threading.get_ident()}) == 2
    assert not thread.is_open


async def test_what_a_call_raises_is_raised_where_it_was_made() -> None:
    def fail() -> None:
        raise StoreError("the disk is broken")

    async with trio.open_nursery() as nursery:
        thread = await opened(nursery)
        with pytest.raises(StoreError, match="the disk is broken"):
            await thread.run(fail)
        done: list[int] = []
        await thread.run(lambda: done.append(1))
        assert done == [1]
        nursery.cancel_scope.cancel()


async def test_a_call_that_runs_is_waited_for_when_the_service_ends() -> None:
    began, go_on, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        began.set()
        go_on.wait(30)
        done.append(1)

    async with trio.open_nursery() as nursery:
        thread = await opened(nursery)
        nursery.start_soon(thread.run, slow)
        await trio.to_thread.run_sync(began.wait)
        nursery.cancel_scope.cancel()
        go_on.set()
    assert done == [1]


async def test_a_call_that_is_cancelled_before_it_runs_is_not_made() -> None:
    async with trio.open_nursery() as nursery:
        thread = await opened(nursery)
        done: list[int] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            await thread.run(lambda: done.append(1))
        assert scope.cancelled_caught
        assert done == []
        nursery.cancel_scope.cancel()


async def test_it_takes_no_call_before_its_thread_is_there(monkeypatch) -> None:
    run_sync, here = trio.to_thread.run_sync, trio.lowlevel.current_trio_token()

    async def never_begins(*args: Any, **settings: Any) -> Any:
        if trio.lowlevel.current_trio_token() is here:  # and not a cluster of other tests, in a thread
            await trio.sleep_forever()
        return await run_sync(*args, **settings)

    monkeypatch.setattr(trio.to_thread, "run_sync", never_begins)
    async with trio.open_nursery() as nursery:
        thread = FlushThread()
        nursery.start_soon(thread.serve)
        await wait_all_tasks_blocked()
        assert not thread.is_open
        nursery.cancel_scope.cancel()


async def test_it_takes_no_thread_from_others() -> None:
    limiter = trio.to_thread.current_default_thread_limiter()
    async with trio.open_nursery() as nursery:
        thread = await opened(nursery)
        done: list[int] = []
        await thread.run(lambda: done.append(limiter.borrowed_tokens))
        assert done == [0]
        nursery.cancel_scope.cancel()


async def test_under_a_mock_clock_there_is_no_thread(mock_clock: MockClock) -> None:
    thread = FlushThread()
    await thread.serve()
    assert not thread.is_open


async def test_ST7_sends_of_many_are_flushed_by_the_thread(tmp_path) -> None:
    settings = {"storage": RealStorage(tmp_path), "flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with broker_and_client(**settings) as (broker, client):
        codes: list[int] = []
        await until_open(broker.storing.flusher.thread)

        async def send() -> None:
            answer = await client.send()
            flushed = broker.store.flushed_position
            codes.append(answer.code)
            assert offset_of_message_id(answer.ext_fields["msgId"]) < flushed

        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(send)
        assert broker.storing.flusher.thread.is_open
        assert codes == [0] * 60
        assert broker.store.flushed_position == broker.store.written_position
        assert len(bodies(await client.pull())) == 32
    assert not broker.storing.flusher.thread.is_open


class HungQueues:
    """A disk whose consume queues do not come to rest until `released` is set."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def __call__(self, operation: str, path: str, size: int) -> None:
        if operation == "fdatasync" and path.startswith("consumequeue/"):
            self.reached.set()
            self.released.wait(30)


async def test_sends_never_wait_for_the_flush_of_the_queues() -> None:
    storage = MemoryStorage()
    settings = {"flush_disk_type": FlushDiskType.SYNC_FLUSH, "flush_interval_consume_queue": 1}
    async with broker_and_client(storage=storage, **settings) as (_, client):
        storage.fault = disk = HungQueues()
        try:
            await client.send()
            assert await trio.to_thread.run_sync(disk.reached.wait, 30)
            with trio.fail_after(30):
                assert (await client.send()).code == ResponseCode.SUCCESS
            assert not disk.released.is_set()
        finally:
            disk.released.set()
