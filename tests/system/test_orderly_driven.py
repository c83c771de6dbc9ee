"""What brokers ask of a consumer that consumes in order: other offsets, one message directly, a look inside."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult
from rocketpy.seams import wall_ms
from rocketpy.wire.enums import CMResult
from tests.system.consuming import wait_until
from tests.system.test_driven import scene


async def test_OF4_a_consumer_in_order_is_moved_and_goes_on_in_order(autojump_clock: MockClock) -> None:
    async with scene(orderly=True) as s:
        before = len(s.recorder.messages)
        await s.reset({s.queue(number): 2 for number in range(4)})
        await wait_until(lambda: len(s.recorder.messages) >= before + 12)
        await trio.sleep(10)
        again = s.recorder.messages[before:]
        for number in range(4):
            assert [message.queue_offset for message in again if message.queue_id == number] == [2, 3, 4]
        assert len(s.consumer.assignment) == 4
        assert all(lock.held for lock in s.consumer.status().locks.values())


async def test_PC7_a_message_that_is_consumed_directly_opens_no_queue(autojump_clock: MockClock) -> None:
    async with scene(orderly=True, suspend_current_queue_time=30.0) as s:
        s.recorder.answer = lambda message: ConsumeResult.RETRY
        await s.world.send(8, start=500)
        await trio.sleep(1)
        count = len(s.recorder.messages)
        assert (await s.info()).properties["PROP_CONSUMEORDERLY"] == "true"
        result = await s.directly(s.recorder.messages[-1])
        assert result.order
        assert result.consume_result is CMResult.CR_LATER
        s.recorder.answer = lambda message: ConsumeResult.COMMIT
        assert (await s.directly(s.recorder.messages[-1])).consume_result is CMResult.CR_COMMIT
        await trio.sleep(5)
        assert len(s.recorder.messages) == count + 2


async def test_PC7_what_a_listener_has_and_has_not_committed_is_told_apart_from_what_waits(
    autojump_clock: MockClock,
) -> None:
    async def hang(message: MessageExt) -> None:
        if message.queue_offset == 2:
            await trio.sleep_forever()

    async with scene(listener=hang, orderly=True, auto_commit=False, await_termination=0.0) as s:
        queue = (await s.info()).mq_table[s.queue(1)]
        assert (queue.transaction_msg_min_offset, queue.transaction_msg_max_offset) == (0, 2)
        assert (queue.cached_msg_min_offset, queue.cached_msg_max_offset) == (3, 4)
        assert (queue.transaction_msg_count, queue.cached_msg_count) == (3, 2)
        assert (queue.locked, queue.droped, queue.try_unlock_times) == (True, False, 0)


async def test_PC7_when_a_lock_was_confirmed_is_told(autojump_clock: MockClock) -> None:
    async with scene(orderly=True) as s:
        for _ in range(4):
            await trio.sleep(15)
            queue = (await s.info()).mq_table[s.queue(0)]
            assert queue.locked
            assert wall_ms() - queue.last_lock_timestamp < 25_000  # it is renewed every 20 s


@pytest.mark.slow
async def test_PC7_a_queue_that_cannot_be_given_up_yet_is_told(autojump_clock: MockClock) -> None:
    stuck = trio.Event()

    async def hang(message: MessageExt) -> None:
        await stuck.wait()

    async with scene(listener=hang, orderly=True) as s:
        other = s.world.consumer(orderly=True, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        other.subscribe("Orders", lambda message: None)
        async with other:
            await trio.sleep(50)
            table = {queue: held for queue, held in (await s.info()).mq_table.items() if queue.topic == "Orders"}
            leaving = [held for held in table.values() if held.droped]
            assert len(table) == 4
            assert len(leaving) == 2
            assert all(held.locked and held.try_unlock_times >= 2 for held in leaving)
            stuck.set()
            await wait_until(lambda: len(other.assignment) == 2)
            table = {queue: held for queue, held in (await s.info()).mq_table.items() if queue.topic == "Orders"}
            assert len(table) == 2
            assert all(held.locked and not held.droped and not held.try_unlock_times for held in table.values())
