"""An orderly consumer commits nothing while its locks are in doubt, and says so to who commits or closes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import RequestTimeoutError
from rocketpy.message import MessageQueue
from tests.consumer.brokers import World, queue, world
from tests.system.consuming import Recorder
from tests.system.test_orderly_locks import Locks, orderly

DOUBTED_AFTER = 35.0
"""Seconds without an answer about locks after which none counts."""


@asynccontextmanager
async def consumed(w: World, locks: Locks) -> AsyncIterator[PushConsumer]:
    """A consumer that has consumed five messages, committed none, and is not sure of its locks."""
    got = Recorder()
    async with orderly(w, got, persist_consumer_offset_interval=3600.0, close_timeout=2.0) as consumer:
        await consumer.commit()
        w.broker.store(5)
        await got.wait_count(5)
        locks.silent = True
        await trio.sleep(DOUBTED_AFTER)
        yield consumer


async def test_a_commit_without_valid_locks_fails_and_closing_warns(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        async with consumed(w, Locks(w.broker)) as consumer:
            began = trio.current_time()
            with pytest.raises(RequestTimeoutError, match=r"the offsets of 2 queues of billing are not .* within 1 s"):
                await consumer.commit(timeout=1)
            assert trio.current_time() - began == pytest.approx(1)
            caplog.clear()
        assert "closes, and the offsets of 2 queues are not committed" in caplog.text
        assert w.broker.offsets["Orders", 0] == 0


async def test_a_commit_waits_for_its_locks(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        locks = Locks(w.broker)

        async def answer_again() -> None:
            await trio.sleep(2)
            locks.silent = False

        async with consumed(w, locks) as consumer:
            nursery.start_soon(answer_again)
            await consumer.commit(timeout=20)
            assert w.broker.offsets["Orders", 0] == 5


async def test_a_commit_does_not_wait_for_the_lock_of_a_queue_that_is_lost(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        locks = Locks(w.broker)

        async def give_to_another() -> None:
            await trio.sleep(2)
            locks.foreign = set(consumer.assignment)
            locks.silent = False

        async with consumed(w, locks) as consumer:
            nursery.start_soon(give_to_another)
            began = trio.current_time()
            with pytest.raises(RequestTimeoutError, match="the offsets of 1 queue of billing are not committed"):
                await consumer.commit(timeout=20)
            assert trio.current_time() - began < 10
            assert w.broker.offsets["Orders", 0] == 0


@pytest.mark.parametrize("end", ["unsubscribed", "closed"])
async def test_a_commit_does_not_wait_for_the_lock_of_a_queue_that_is_given_up(
    autojump_clock: MockClock, end: str
) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        took: list[float] = []

        async def commit() -> None:
            began = trio.current_time()
            with pytest.raises(RequestTimeoutError):
                await consumer.commit(timeout=60)
            took.append(trio.current_time() - began)

        async with consumed(w, Locks(w.broker)) as consumer:
            nursery.start_soon(commit)
            await trio.sleep(1)
            if end == "unsubscribed":
                consumer.unsubscribe("Orders")
                await trio.sleep(10)
                assert len(took) == 1
        assert len(took) == 1
        assert took[0] < 30


async def test_a_hook_does_not_wait_for_the_locks_of_other_queues(autojump_clock: MockClock) -> None:
    async with world() as w, consumed(w, Locks(w.broker)) as consumer:
        assert consumer._running is not None
        consumer._running._hooks.under_way = True
        began = trio.current_time()
        await consumer.outside.commit(20, True)
        assert trio.current_time() == began
        with pytest.raises(RequestTimeoutError):  # another task, while a hook runs
            await consumer.commit(timeout=1)
        consumer._running._hooks.under_way = False


class Kept:
    """An offset store of the user's."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}

    async def read(self, queue: MessageQueue) -> int | None:
        return self.offsets.get(queue)

    async def write(self, offsets: dict[MessageQueue, int]) -> None:
        self.offsets.update(offsets)


async def test_offsets_that_are_written_already_need_no_lock(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    kept, got = Kept(), Recorder()
    async with world() as w:
        locks = Locks(w.broker)
        w.broker.store(5)
        async with orderly(w, got, offset_store=kept, close_timeout=2.0) as consumer:
            await got.wait_count(5)
            await consumer.commit()
            assert kept.offsets[queue(0)] == 5
            locks.silent = True
            await trio.sleep(DOUBTED_AFTER)
            await consumer.commit(timeout=1)
            caplog.clear()
    assert "are not committed" not in caplog.text
