"""An orderly consumer commits nothing while its locks are in doubt, and says so to who commits or closes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import RequestTimeoutError
from tests.consumer.brokers import World, world
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
            with pytest.raises(RequestTimeoutError, match=r"the offsets of 2 queues of billing are not .* after 1 s"):
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
            await consumer.commit(timeout=20)
            assert trio.current_time() - began < 10
            assert w.broker.offsets["Orders", 0] == 0
