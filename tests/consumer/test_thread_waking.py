"""Waking threads and the loop: seldom while messages stream in, and none is ever lost."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel

from rocketpy.consumer.calling import thread_runner
from rocketpy.consumer.calling.crew import Crew
from rocketpy.consumer.process_queue import FlowLimits
from rocketpy.message import MessageExt
from tests.consumer.helpers import QUEUE
from tests.consumer.thread_bench import Bench, bench

pytestmark = pytest.mark.waits("listeners in real threads, which only the system wakes")


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


@pytest.mark.parametrize(
    ("since_the_last", "a_turn_takes", "earliest", "latest"),
    [
        pytest.param(1.0, 0.0, 1, 3, id="calls after a pause"),
        pytest.param(0.0, 0.0, 16, 18, id="a stream"),
        pytest.param(0.0, 0.01, 1, 3, id="a stream in a busy loop"),
    ],
)
async def test_a_worker_is_woken_later_for_calls_that_come_in_a_stream(
    since_the_last: float, a_turn_takes: float, earliest: int, latest: int
) -> None:
    async with bench(lambda message: None, consume_thread_max=1) as b:
        runner: Any = b.service._plain
        now, turn, woken = 0.0, 0, list[int]()
        runner._clock = lambda: now
        b.feed(1)
        await b.wait_empty()
        wake = runner._wake_one

        def note(**besides: Any) -> None:
            if not besides:  # otherwise a thread wakes another one
                woken.append(turn)
            wake(**besides)

        runner._wake_one = note
        now += since_the_last
        b.feed(1)
        for turn in range(1, 40):  # noqa: B007  `note` reads it
            await trio.lowlevel.checkpoint()
            now += a_turn_takes
        assert earliest <= woken[0] <= latest
        await b.wait_empty()


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
