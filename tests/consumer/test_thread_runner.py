"""Plain listeners in real threads, in real time: quick ones cost nothing, slow ones run side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer import thread_runner
from rocketpy.consumer.consume_concurrently import ConsumeMessageConcurrentlyService
from rocketpy.consumer.crew import Crew
from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue
from rocketpy.consumer.subscription import Subscriptions
from rocketpy.message import MessageExt, MessageQueue
from tests.consumer.helpers import QUEUE, stored_range

pytestmark = pytest.mark.waits("listeners in real threads, which only the system wakes")


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

    def __init__(self, listener: Any, more: dict[str, Any], **settings: Any) -> None:
        config = PushConsumerConfig(group="billing", namesrv="a:1", **settings)
        subscriptions = Subscriptions("billing", lambda: None)
        for topic, each in {"Orders": listener, **more}.items():
            subscriptions.add(topic, each)
        self.offsets = Offsets()
        self.backs = Backs()
        self.service = ConsumeMessageConcurrentlyService(config, subscriptions, self.offsets, self.backs)  # type: ignore[arg-type]
        self.queue = ProcessQueue(QUEUE, 0)
        self.queues = {"Orders": self.queue, **{topic: ProcessQueue(MessageQueue(topic, "b", 0), 0) for topic in more}}

    def feed(self, count: int, topic: str = "Orders") -> None:
        queue = self.queues[topic]
        messages = stored_range(queue.position, queue.position + count, topic=topic)
        queue.put(messages)
        self.service.submit(queue, messages)

    async def wait_empty(self, topic: str = "Orders") -> None:
        with trio.fail_after(20):
            while len(self.queues[topic]):  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)


@asynccontextmanager
async def bench(listener: Any, more: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[Bench]:
    made = Bench(listener, more or {}, **settings)
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
    async with bench(listener, consume_thread_max=1) as b:
        b.service.set_most(8)  # more than twice as many
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


# --- waking ------------------------------------------------------------------------------------------------


async def wait_untold(b: Bench) -> None:
    with trio.fail_after(10):
        while not b.service._finished.untold:  # noqa: ASYNC110  real threads, real time
            await trio.sleep(0.001)


async def test_an_idle_thread_says_at_once_what_must_not_wait_and_the_loop_takes_the_rest_when_it_brings_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listener(message: MessageExt) -> bool:
        return message.queue_offset != 4

    async with bench(listener, consume_thread_max=1) as b:
        b.feed(1)
        await b.wait_empty()  # there is an idle thread, and nothing that it has not said
        monkeypatch.setattr(thread_runner, "_LINGER", 3600)
        monkeypatch.setattr(thread_runner, "YIELD_AFTER", 3600)
        b.feed(1)
        await wait_untold(b)
        await trio.sleep(0.01)
        assert len(b.queue) == 1  # consumed, and nobody has said so
        b.feed(1)
        assert len(b.queue) == 1
        assert b.offsets.table[QUEUE] == 2
        # Somebody waits for room.
        room = trio.Event()
        b.queue.limits = FlowLimits(messages=0)
        b.queue.call_when_room(room.set)
        b.feed(1)
        with trio.fail_after(10):
            await room.wait()
        # A failure.
        b.feed(1)
        await b.wait_empty()
        assert [message.queue_offset for message in b.backs.messages] == [4]
        # The end: what has not been said is taken all the same.
        b.feed(1)
        await wait_untold(b)
        await b.service.stop()
        assert b.offsets.table[QUEUE] == 6


async def test_a_call_that_ends_while_others_are_being_taken_is_taken_next() -> None:
    inside, hold = threading.Event(), threading.Event()

    def listener(message: MessageExt) -> None:
        if message.queue_offset == 0:
            inside.wait(10)
        else:
            inside.set()
            hold.wait(10)

    async with bench(listener, consume_thread_max=2) as b:
        collect, finished = b.service.collect, b.service._finished

        def take_slowly() -> None:
            collect()
            hold.set()
            deadline = time.monotonic() + 10
            while len(b.queue) == 1 and not finished.succeeded and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.01)  # the thread looks whether it has to say so

        b.service.collect = take_slowly  # type: ignore[method-assign]
        b.feed(2)
        await b.wait_empty()
        assert b.offsets.table[QUEUE] == 2


class _Workers(set[Any]):
    """The workers of a runner; one thread is held up when it has just counted them."""

    def __init__(self, workers: set[Any]) -> None:
        super().__init__(workers)
        self.held: int | None = None
        self.counted, self.go = threading.Event(), threading.Event()

    def __len__(self) -> int:
        count = super().__len__()
        if threading.get_ident() == self.held:
            self.held = None
            self.counted.set()
            self.go.wait(0.5)
        return count


async def test_no_wake_up_is_lost_when_a_thread_asks_for_another_that_is_there_already() -> None:
    """A thread counts the others and is interrupted, while the last one that is allowed starts and becomes idle; then
    it asks for one more. What comes before the answer must find the idle one."""
    begin, inside, hold = threading.Event(), threading.Event(), threading.Event()
    got: list[int] = []

    def listener(message: MessageExt) -> None:
        if message.queue_offset == 0:
            runner._workers.held = threading.get_ident()
            begin.wait(10)
        elif message.queue_offset == 1:
            inside.set()
            hold.wait(20)
        got.append(message.queue_offset)

    async with bench(listener, consume_thread_max=2) as b:
        runner: Any = b.service._plain
        runner._workers = workers = _Workers(runner._workers)
        runner.submit = partial(Crew.submit, runner)  # at once, so that it comes before the answer
        b.feed(1)
        with trio.fail_after(10):
            while not runner.running():  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)
        # Two more, of which nobody hears: the thread itself is to ask for help when it takes the first of them.
        runner._waking = True
        b.feed(2)
        runner._waking = False
        begin.set()
        await trio.to_thread.run_sync(workers.counted.wait, 10)
        b.feed(1)
        with trio.fail_after(10):
            while len(got) < 3:  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)
            await trio.sleep(0.05)  # the second thread has nothing to do now
        workers.go.set()
        inside.wait(10)  # in this thread, so that what was asked for is not answered yet
        b.feed(1)
        with trio.fail_after(5):
            while 4 not in got:  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)
        hold.set()
        await b.wait_empty()


async def test_every_message_is_consumed_when_calls_come_one_by_one_from_topics_in_turn() -> None:
    topics = ("Orders", "Bills", "Cakes")
    got: list[tuple[str, int]] = []

    def listener(message: MessageExt) -> None:
        got.append((message.topic, message.queue_offset))

    async with bench(listener, dict.fromkeys(topics[1:], listener), consume_thread_max=3) as b:
        for _ in range(300):
            for topic in topics:
                b.feed(1, topic)
                await trio.lowlevel.checkpoint()
        for topic in topics:
            await b.wait_empty(topic)
    assert sorted(got) == sorted((topic, offset) for topic in topics for offset in range(300))


# --- topics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [2, 4, 20])
async def test_threat_L7_listeners_of_one_topic_that_hang_do_not_starve_another(limit: int) -> None:
    hold = threading.Event()
    got: list[int] = []

    def hanging(message: MessageExt) -> None:
        hold.wait(20)

    async with bench(
        hanging, {"Bills": lambda message: got.append(message.queue_offset)}, consume_thread_max=limit
    ) as b:
        b.feed(100)
        with trio.fail_after(10):
            while len(b.service._plain.running()) < limit - 1:  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)
        for _ in range(3):
            b.feed(50, "Bills")
            await b.wait_empty("Bills")
        assert len(got) == 150
        assert len(b.service._plain.running()) == limit - 1
        hold.set()
        await b.wait_empty()


async def test_the_backlog_of_one_topic_does_not_delay_another() -> None:
    got: list[str] = []

    def listener(message: MessageExt) -> None:
        got.append(message.topic)
        time.sleep(0.003)

    async with bench(listener, {"Bills": listener}, consume_thread_max=1) as b:
        b.feed(100)
        with trio.fail_after(10):
            while len(got) < 3:  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)
        b.feed(1, "Bills")
        await b.wait_empty("Bills")
        assert len(got) < 50
        await b.wait_empty()
