"""Topics that producers create, and change: nothing that was sent gets out of reach."""

from __future__ import annotations

import pytest

from rocketpy.errors import TopicNotFoundError
from rocketpy.message import Message
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


async def test_where_no_broker_creates_topics_the_error_names_the_topic_and_the_setting(autojump_clock):
    async with world(topics=(), auto_create_topic_enable=False) as w:
        with pytest.raises(TopicNotFoundError, match=r"to create the topic Orders.*create_topic_key"):
            await w.producer.create_topic("Orders")
