"""Brokers that answer a pull with another offset, because the queue has no such offset or the group was reset."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.wire.codes import ResponseCode
from tests.consumer.brokers import Log, queue, world
from tests.consumer.test_pull import FIRST, Gate, answer, offsets_of

# --- no such offset --------------------------------------------------------------------------------------


async def test_PC4_an_illegal_offset_drops_what_is_held_and_goes_on_where_the_broker_says(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        w.broker.store(4)
        gate = Gate()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", gate)
        async with consumer:
            await trio.sleep(0.1)
            assert sorted(gate.got) == [0, 1, 2, 3]
            w.broker.logs["Orders", 0] = Log(min_offset=100, max_offset=100)
            w.broker.answer_parked(ResponseCode.PULL_OFFSET_MOVED, 100)
            await trio.sleep(0.1)
            assert w.broker.pulled()[-1] == 100
            assert w.broker.offsets["Orders", 0] == 100
            # Results of listeners for messages from before the jump no longer count.
            gate.opened.set()
            await trio.sleep(6)
            assert w.broker.offsets["Orders", 0] == 100
            assert consumer.statistics().offset_resets == 1
            w.broker.store(2)
            await trio.sleep(1)
            assert sorted(gate.done) == [0, 1, 2, 3, 100, 101]


async def test_PC4_a_broker_may_move_a_group_back(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(10)
        w.broker.offsets["Orders", 0] = 10
        w.broker.script = [answer(w.broker, ResponseCode.PULL_OFFSET_MOVED, 4)]
        got: list[MessageExt] = []
        consumer = w.consumer()
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(6)
            assert offsets_of(got) == [4, 5, 6, 7, 8, 9]
            assert w.broker.offsets["Orders", 0] == 10


# --- pauses and resets ---------------------------------------------------------------------------------------


async def test_PC3_a_pull_in_progress_ends_in_a_pause_and_its_messages_come_again(autojump_clock: MockClock) -> None:
    async with world() as w:
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(1)
            consumer.pause()
            await trio.sleep(1)
            assert consumer.status().queues[queue()].paused == "pause() was called"
            consumer.resume()
            await trio.sleep(1)
            assert consumer.status().queues[queue()].paused is None
            consumer.pause()
            await trio.sleep(1)
            assert w.broker.pulled() == [0], "the first pull is still held"
            w.broker.store(3)
            await trio.sleep(60)
            assert (w.broker.pulled(), got) == ([0], [])
            consumer.resume()
            await trio.sleep(1)
            assert offsets_of(got) == [0, 1, 2]
            assert w.broker.pulled() == [0, 0, 3]


async def test_OF4_a_reset_that_is_told_in_a_pause_is_taken_up(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(5)
        got: list[MessageExt] = []
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got.append)
        async with consumer:
            await trio.sleep(1)
            consumer.pause()
            await trio.sleep(1)
            w.broker.answer_parked(ResponseCode.PULL_OFFSET_MOVED, 2)
            await trio.sleep(10)
            assert w.broker.offsets["Orders", 0] == 2
            consumer.resume()
            await trio.sleep(1)
        assert offsets_of(got) == [0, 1, 2, 2, 3, 3, 4, 4]
        assert w.broker.pulled() == [0, 5, 2, 5]


async def test_OF4_a_reset_waits_for_listeners_and_what_they_return_counts_no_more(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(4)
        gate = Gate()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", gate)
        async with consumer:
            await trio.sleep(0.1)
            w.broker.answer_parked(ResponseCode.PULL_OFFSET_MOVED, 3)
            await trio.sleep(5)
            assert (w.broker.pulled(), gate.got) == ([0, 4], [0, 1, 2, 3])
            gate.opened.set()
            await trio.sleep(1)
            assert gate.got[4:] == [3]
            assert w.broker.pulled() == [0, 4, 3, 4]
            assert {commit.commit_offset for commit in w.broker.commits if commit.topic == "Orders"} == {3}
            assert consumer.statistics().offset_resets == 1


async def test_OF4_a_reset_to_where_a_queue_stands_drops_what_is_held(autojump_clock: MockClock) -> None:
    """Such a reset means to skip the messages that listeners have; without any, there is nothing to do."""
    async with world() as w:
        w.broker.store(4)
        gate = Gate()
        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=1)
        consumer.subscribe("Orders", gate)
        async with consumer:
            await trio.sleep(0.1)
            w.broker.answer_parked(ResponseCode.PULL_OFFSET_MOVED, 4)
            await trio.sleep(1.5)
            gate.opened.set()
            await trio.sleep(1)
            assert (gate.got, w.broker.offsets["Orders", 0], w.broker.pulled()) == ([0], 4, [0, 4, 4])
            w.broker.answer_parked(ResponseCode.PULL_OFFSET_MOVED, 4)
            await trio.sleep(0.1)
            assert w.broker.pulled() == [0, 4, 4, 4]
