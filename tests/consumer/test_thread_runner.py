"""Plain listeners in real threads, in real time: quick ones cost nothing, slow ones run side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.consume_concurrently import ConsumeMessageConcurrentlyService
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.consumer.subscription import Subscriptions
from rocketpy.message import MessageExt, MessageQueue
from tests.consumer.helpers import QUEUE, stored_range


class Offsets:
    """An offset store with nobody behind it."""

    def __init__(self) -> None:
        self.table: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        self.table[queue] = offset


class Backs:
    """Takes everything back."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        self.messages.append(message)
        return True


class Bench:
    """A service with what is around it."""

    def __init__(self, listener: Any, **settings: Any) -> None:
        config = PushConsumerConfig(group="billing", namesrv="a:1", **settings)
        subscriptions = Subscriptions("billing", lambda: None)
        subscriptions.add("Orders", listener)
        self.offsets = Offsets()
        self.backs = Backs()
        self.service = ConsumeMessageConcurrentlyService(config, subscriptions, self.offsets, self.backs)  # type: ignore[arg-type]
        self.queue = ProcessQueue(QUEUE, 0)

    def feed(self, count: int) -> None:
        messages = stored_range(self.queue.position, self.queue.position + count)
        self.queue.put(messages)
        self.service.submit(self.queue, messages)

    async def wait_empty(self) -> None:
        with trio.fail_after(20):
            while len(self.queue):  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)


@asynccontextmanager
async def bench(listener: Any, **settings: Any) -> AsyncIterator[Bench]:
    made = Bench(listener, **settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.service.run)
        yield made
        nursery.cancel_scope.cancel()


async def test_every_message_is_consumed_once_in_threads_that_stay() -> None:
    got: list[int] = []
    threads: set[str] = set()

    def listener(message: MessageExt) -> None:
        got.append(message.queue_offset)
        threads.add(threading.current_thread().name)

    async with bench(listener, consume_thread_max=4) as b:
        for _ in range(100):
            b.feed(32)
            await trio.lowlevel.checkpoint()
        await b.wait_empty()
        assert sorted(got) == list(range(3200))
        assert b.offsets.table[QUEUE] == 3200
        assert len(threads) <= 4
        assert threading.current_thread().name not in threads


async def test_slow_listeners_run_side_by_side_at_once() -> None:
    together = threading.Barrier(8)

    def listener(message: MessageExt) -> None:
        together.wait(10)  # eight calls at the same time, or a broken barrier

    async with bench(listener, consume_thread_max=8) as b:
        b.feed(8)
        await b.wait_empty()
        assert b.backs.messages == []
        b.feed(16)
        await b.wait_empty()
        assert b.backs.messages == []


async def test_never_more_than_allowed_at_the_same_time() -> None:
    lock = threading.Lock()
    running = most = 0

    def listener(message: MessageExt) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    async with bench(listener, consume_thread_max=3) as b:
        b.feed(100)
        await b.wait_empty()
        assert most == 3


async def test_a_listener_that_gets_slow_all_of_a_sudden_does_not_hold_up_what_waits_behind_it() -> None:
    hold = threading.Event()
    got: list[int] = []

    def listener(message: MessageExt) -> None:
        if message.queue_offset == 500:
            hold.wait(20)
        got.append(message.queue_offset)

    async with bench(listener, consume_thread_max=2) as b:
        b.feed(1000)
        with trio.fail_after(10):
            while len(got) < 999:  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)
        # What it had done before is noted while it is still at work.
        b.service.collect()
        assert b.queue.commit_offset == 500
        assert len(b.queue) == 1
        hold.set()
        await b.wait_empty()


async def test_threat_L7_threads_survive_whatever_is_raised() -> None:
    errors = [ValueError(), SystemExit(), KeyboardInterrupt(), GeneratorExit(), BaseException()]

    def listener(message: MessageExt) -> None:
        raise errors[message.queue_offset % len(errors)]

    async with bench(listener, consume_thread_max=2) as b:
        b.feed(20)
        await b.wait_empty()
        assert sorted(message.queue_offset for message in b.backs.messages) == list(range(20))
        assert b.service.counters.failed == 20


async def test_threat_L7_threads_that_hang_are_replaced_when_their_time_is_over() -> None:
    hold = threading.Event()
    got: list[int] = []

    def listener(message: MessageExt) -> None:
        if message.queue_offset < 2:
            hold.wait(20)
        got.append(message.queue_offset)

    async with bench(listener, consume_thread_max=2, consume_timeout=0.05) as b:
        b.feed(10)
        await b.wait_empty()
        assert sorted(got) == list(range(2, 10))
        assert sorted(message.queue_offset for message in b.backs.messages) == [0, 1]
        hold.set()


async def test_stopping_waits_for_calls_under_way_and_begins_no_other() -> None:
    began: list[int] = []
    hold, inside = threading.Event(), threading.Event()

    def listener(message: MessageExt) -> None:
        began.append(message.queue_offset)
        inside.set()
        hold.wait(20)

    async with bench(listener, consume_thread_max=1) as b:
        b.feed(10)
        await trio.to_thread.run_sync(inside.wait, 10)
        with trio.move_on_after(0.02) as too_early:
            await b.service.stop()
        assert too_early.cancelled_caught
        hold.set()
        with trio.fail_after(10):
            await b.service.stop()
        assert began == [0]
        assert b.offsets.table[QUEUE] == 1


async def test_a_thread_that_hangs_at_the_end_is_left_to_itself() -> None:
    hold, inside = threading.Event(), threading.Event()

    def listener(message: MessageExt) -> None:
        inside.set()
        hold.wait(20)

    async with bench(listener, consume_thread_max=1) as b:
        b.feed(1)
        await trio.to_thread.run_sync(inside.wait, 10)
    hold.set()
    assert b.offsets.table == {}


def test_a_thread_that_outlives_the_loop_ends_quietly(recwarn: pytest.WarningsRecorder) -> None:
    hold, inside, after = threading.Event(), threading.Event(), threading.Event()

    def listener(message: MessageExt) -> None:
        inside.set()
        hold.wait(20)
        after.set()

    async def main() -> None:
        async with bench(listener, consume_thread_max=1) as b:
            b.feed(1)
            await trio.to_thread.run_sync(inside.wait, 10)

    trio.run(main)
    hold.set()
    assert after.wait(10)


async def test_a_listener_may_call_back_into_the_loop() -> None:
    got: list[float] = []

    def listener(message: MessageExt) -> None:
        got.append(trio.from_thread.run_sync(trio.current_time))

    async with bench(listener) as b:
        b.feed(3)
        await b.wait_empty()
        assert len(got) == 3


async def test_threads_begin_no_other_call_once_the_service_is_cancelled() -> None:
    hold, inside = threading.Event(), threading.Event()
    began: list[int] = []

    def listener(message: MessageExt) -> None:
        began.append(message.queue_offset)
        inside.set()
        hold.wait(20)

    async with bench(listener, consume_thread_max=1) as b:
        b.feed(3)
        await trio.to_thread.run_sync(inside.wait, 10)
    plain = b.service._plain
    hold.set()
    with trio.fail_after(10):
        while plain.running():  # noqa: ASYNC110  a real thread, in real time
            await trio.sleep(0.001)
        await trio.sleep(0.05)
    assert began == [0]
