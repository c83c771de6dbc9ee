"""Queues with messages are bounded over all topics; what was taken before is delivered all the same."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client, client_of, settings

TOPIC = TopicConfig(topic_name="T", read_queue_nums=100, write_queue_nums=100)


async def test_a_message_that_needs_one_queue_too_many_is_refused_and_the_others_are_not(
    autojump_clock: MockClock,
) -> None:
    async with broker_and_client(max_queues=4) as (broker, client):
        broker.topics.put(TOPIC)
        answers = [await client.send("T", queue_id=number) for number in range(6)]
        assert [each.code for each in answers] == [0] * 4 + [ResponseCode.SYSTEM_ERROR] * 2
        assert "delete topics that are not needed, or raise maxQueues" in (answers[-1].remark or "")
        assert broker.store.reads.queue_ids("T") == [0, 1, 2, 3]
        assert (await client.send("T", queue_id=2)).code == 0
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})).code == 0
        assert (await client.send("Other", queue_id=0)).code == 0


async def test_a_delayed_message_has_its_queue_when_it_is_taken(autojump_clock: MockClock) -> None:
    storage, network = MemoryStorage(), MemoryNetwork()
    async with open_broker(settings(max_queues=3), network=network, storage=storage) as broker:
        broker.topics.put(TOPIC)
        async with client_of(network, broker.address) as client:
            delay = {"properties": "DELAY\x013\x02"}
            # One of the three is the queue of the delay level.
            answers = [await client.send("T", queue_id=number, **delay) for number in range(4)]
            assert [each.code for each in answers] == [0, 0, ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR]
    # The next start finds no queues of what waits, and fewer may be made: what was taken comes all the same.
    async with open_broker(settings(max_queues=1), network=network, storage=storage) as broker:
        await trio.sleep(30)
        assert [broker.store.reads.max_offset("T", number) for number in range(3)] == [1, 1, 0]
