"""Topics that producers create, and change: nothing that was sent gets out of reach."""

from __future__ import annotations

import pytest

from rocketpy.errors import BrokerUnreachableError, ConnectError, NameServerUnreachableError, TopicNotFoundError
from rocketpy.message import Message
from rocketpy.producer import Producer
from tests.system.consuming import world


async def spread(w, count):
    """The numbers of the queues to which so many messages go."""
    return {(await w.producer.send(Message("Orders", b"x"))).queue.queue_id for _ in range(count)}


async def test_a_topic_that_exists_stays_as_it_is(autojump_clock):
    async with world(topics=()) as w:
        await w.producer.create_topic("Orders", queues=8)
        await w.producer.create_topic("Orders")
        assert len(await w.producer.queues("Orders")) == 8
        assert await spread(w, 8) == set(range(8))


async def test_queues_that_are_taken_away_can_still_be_read(autojump_clock):
    async with world(topics=()) as w:
        await w.producer.create_topic("Orders", queues=8)
        await spread(w, 8)
        await w.producer.create_topic("Orders", queues=2)
        assert await spread(w, 8) == {0, 1}
        async with w.puller() as consumer:
            queues = await consumer.fetch_message_queues("Orders")
            assert [await consumer.end_offset(queue) for queue in queues] == [5, 5, 1, 1, 1, 1, 1, 1]


async def test_the_producer_sends_by_the_new_number_at_once(autojump_clock):
    async with world(topics=()) as w:
        await w.producer.create_topic("Orders", queues=1)
        assert await spread(w, 4) == {0}
        await w.producer.create_topic("Orders", queues=4)
        assert await spread(w, 4) == {0, 1, 2, 3}


async def test_the_first_message_of_a_topic_may_create_it_after_all(autojump_clock):
    """A producer that has looked for a topic knows what its first message would create: that is no topic yet."""
    async with world(topics=()) as w:
        await w.producer.send(Message("Orders", b"x"))
        await w.producer.create_topic("Orders", queues=3)
        assert await spread(w, 3) == {0, 1, 2}


async def test_a_topic_is_created_where_messages_create_none(autojump_clock):
    async with world(2, topics=(), auto_create_topic_enable=False) as w:
        with pytest.raises(TopicNotFoundError, match="the topic Orders does not exist: create it"):
            await w.producer.send(Message("Orders", b"x"))
        await w.producer.create_topic("Orders", queues=3)
        queues = await w.producer.queues("Orders")
        assert [(queue.broker_name, queue.queue_id) for queue in queues] == [
            (name, number) for name in ("broker-a", "broker-b") for number in range(3)
        ]
        await w.producer.send(Message("Orders", b"x"))
        await w.producer.create_topic("Orders", queues=5)
        assert len(await w.producer.queues("Orders")) == 10


async def test_a_key_of_the_users_own_chooses_the_brokers(autojump_clock):
    async with world(2, topics=(), auto_create_topic_enable=False) as w:
        await w.cluster.stop_broker(1)
        await w.producer.create_topic("Model", queues=1)
        await w.cluster.start_broker(1)
        async with keyed(w, "Model") as chosen:
            await chosen.create_topic("Orders")
            assert {queue.broker_name for queue in await chosen.queues("Orders")} == {"broker-a"}
        async with keyed(w, "Missing") as chosen:
            with pytest.raises(TopicNotFoundError, match=r"Bills cannot be created: create_topic_key='Missing' means"):
                await chosen.create_topic("Bills")


def keyed(w, key):
    return Producer("keyed", namesrv=w.cluster.name_server_addresses, network=w.cluster.network, create_topic_key=key)


async def test_without_any_broker_the_error_speaks_of_brokers(autojump_clock):
    async with world(topics=()) as w:
        await w.cluster.stop_broker(0)
        said = (
            r"the topic Orders cannot be created: no broker is registered with the name server \S+: the broker is down"
        )
        with pytest.raises(BrokerUnreachableError, match=said):
            await w.producer.create_topic("Orders")


async def test_created_topics_go_through_the_address_map(autojump_clock):
    async with world(topics=()) as w:
        (broker,) = w.cluster.brokers
        w.cluster.network.refuse(broker.address)
        async with Producer(
            "mapped",
            namesrv=w.cluster.name_server_addresses,
            network=w.cluster.network,
            address_map={broker.address: "elsewhere:1"},
        ) as producer:
            with pytest.raises(ConnectError, match="elsewhere:1"):
                await producer.create_topic("Orders")


async def test_a_name_server_that_does_not_answer_is_named_when_a_topic_is_created(autojump_clock):
    async with world(topics=()) as w:
        w.cluster.network.hang(w.cluster.name_server_addresses)
        async with Producer("late", namesrv=w.cluster.name_server_addresses, network=w.cluster.network) as producer:
            with pytest.raises(NameServerUnreachableError, match="check that this is the address of a name server"):
                await producer.create_topic("Orders", timeout=2)
