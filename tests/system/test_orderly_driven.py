"""What brokers ask of a consumer that consumes in order: other offsets, one message directly, a look inside."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.results import ConsumeResult
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
