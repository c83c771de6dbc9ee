"""What consumers tell of each broker: the queues that they have of it, what is held, and what was pulled from it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy import BrokerPulls, Latency
from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def _send_three_and_one(w: World) -> None:
    for queue in await w.producer.queues("Orders"):
        for _ in range(3 if queue.broker_name == "broker-a" else 1):
            await w.producer.send(Message("Orders", b"12345"), queue=queue)


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_push_consumer_tells_of_each_broker(autojump_clock: MockClock, orderly: bool) -> None:
    release = trio.Event()

    async def listener(message: MessageExt) -> None:
        await release.wait()

    async with world(brokers=2, queues=2) as w:
        await _send_three_and_one(w)
        consumer = w.consumer(consume_from_where=FIRST, orderly=orderly, pull_batch_size=1)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await wait_until(lambda: consumer.statistics().held == 8)
            found = consumer.statistics().brokers
            assert {name: (each.pulled, each.held) for name, each in found.items()} == {
                "broker-a": (6, 6),
                "broker-b": (2, 2),
            }
            assert [each.queues for each in found.values()] == [3, 3], "of which one is for retries"
            assert {name: each.latency.count for name, each in found.items()} == {"broker-a": 6, "broker-b": 2}
            assert found["broker-a"].held_bytes == 3 * found["broker-b"].held_bytes >= 6 * 5
            assert found["broker-a"].pulled_per_second == pytest.approx(3 * found["broker-b"].pulled_per_second)
            release.set()
            await wait_until(lambda: consumer.statistics().held == 0)
            await trio.sleep(120)
            later = consumer.statistics().brokers["broker-a"]
            assert later == BrokerPulls(queues=3, pulled=6, latency=Latency())


async def test_a_lite_pull_consumer_tells_of_each_broker(autojump_clock: MockClock) -> None:
    async with world(brokers=2, queues=2) as w:
        await _send_three_and_one(w)
        async with w.lite(consume_from_where=FIRST) as consumer:
            queues = [queue for queue in await consumer.fetch_message_queues("Orders") if queue.queue_id == 0]
            consumer.assign(queues)
            await wait_until(lambda: consumer.statistics().held == 4)
            found = consumer.statistics().brokers
            assert [(name, each.queues, each.pulled, each.held) for name, each in found.items()] == [
                ("broker-a", 1, 3, 3),
                ("broker-b", 1, 1, 1),
            ]
            consumer.assign([queue for queue in queues if queue.broker_name == "broker-a"])
            await wait_until(lambda: consumer.statistics().brokers["broker-b"].queues == 0)
            assert consumer.statistics().brokers["broker-b"].pulled == 1
