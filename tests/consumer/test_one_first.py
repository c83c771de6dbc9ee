"""Commits of many queues: one of each topic at a broker has its answer before the others are sent."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.consumer.offsets.one_first import one_first
from rocketpy.message import MessageQueue

QUEUES = [MessageQueue(topic, broker, number) for topic in "TU" for broker in ("a", "b") for number in range(3)]


async def test_one_of_each_topic_at_a_broker_goes_first(autojump_clock: MockClock) -> None:
    began: dict[MessageQueue, float] = {}

    async def tell(queue: MessageQueue) -> None:
        began[queue] = trio.current_time()
        await trio.sleep(2 if queue.broker_name == "a" else 1)

    start = trio.current_time()
    await one_first(tell, QUEUES)
    assert began.keys() == set(QUEUES)
    for queue, at in began.items():
        waited = 0 if queue.queue_id == 0 else 2 if queue.broker_name == "a" else 1
        assert at - start == waited, queue
    assert trio.current_time() - start == 4


async def test_nothing_is_told_of_no_queues() -> None:
    async def tell(queue: MessageQueue) -> None:
        raise AssertionError(queue)

    await one_first(tell, [])
