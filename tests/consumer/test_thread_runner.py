"""Plain listeners in real threads, in real time: quick ones cost nothing, slow ones run side by side."""

from __future__ import annotations

import threading
import time

import pytest
import trio
import trio.lowlevel

from rocketpy.message import MessageExt
from tests.consumer.helpers import QUEUE
from tests.consumer.thread_bench import bench

pytestmark = pytest.mark.waits("listeners in real threads, which only the system wakes")


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
