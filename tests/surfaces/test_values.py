"""Values on every surface: what a producer serializes, every kind of consumer reads by itself, from a real broker."""

from __future__ import annotations

import asyncio
import queue

import pytest
import trio

import rocketpy.sync
from rocketpy import (
    ConsumeFromWhere,
    ConsumeResult,
    LocalTransactionState,
    Message,
    UnknownContentTypeError,
    create_reply_message,
)
from tests.serialization.shouting import Shouting
from tests.surfaces.surface import call, entered

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
VALUES = [{"n": 1, "lines": [["cup", 2.5]]}, None, "text", b"bytes", list(range(3000))]


def committed(message, arg):
    return LocalTransactionState.COMMIT if message.value == VALUES[2] else LocalTransactionState.ROLLBACK


async def send_in_all_ways(surface, namesrv, topic):
    """One value in each way to send; a text that is no value besides."""
    module = surface.module
    async with entered(module.Producer("pg", namesrv=namesrv)) as producer:
        await call(producer.create_topic(topic, queues=1))
        await call(producer.send(Message(topic, value=VALUES[0], tags="a")))
        await call(producer.send_batch([Message(topic, value=VALUES[1]), Message(topic, "no value")]))
    async with entered(
        module.TransactionProducer("pg", namesrv=namesrv, checker=lambda message: None, serializer="json")
    ) as producer:
        await call(producer.send_in_transaction(Message(topic, value=VALUES[2]), committed))
    async with entered(module.Producer("pg", namesrv=namesrv, linger=0.002)) as producer:
        await call(producer.send(Message(topic, value=VALUES[3])))
        await call(producer.send_many([Message(topic, value=VALUES[4])]))
    return [*VALUES[:2], b"no value", *VALUES[2:]]


def test_every_consumer_reads_the_values_of_every_way_to_send(surface, namesrv, topic):
    async def main():
        module = surface.module
        sent = await send_in_all_ways(surface, namesrv, topic)
        pulled = []
        async with entered(module.PullConsumer(f"pull-{topic}", namesrv=namesrv)) as consumer:
            [only] = await call(consumer.fetch_message_queues(topic))
            result = await call(consumer.pull(only, 0))
            pulled = [message.value for message in result.messages]
        lite = module.LitePullConsumer(f"lite-{topic}", namesrv=namesrv, consume_from_where=FIRST)
        lite.subscribe(topic)
        polled = []
        async with entered(lite) as consumer:
            while len(polled) < len(sent):
                polled += [message.value for message in await call(consumer.poll(timeout=1))]
        return sent, pulled, polled

    sent, pulled, polled = surface.run(main)
    assert pulled == polled == sent


@pytest.mark.slow
@pytest.mark.waits("until messages that failed have come again, and become dead letters")
def test_a_serializer_of_the_users_own_reads_retries_dead_letters_and_replies(surface, namesrv, topic):
    """And a consumer that has not got it says so, which is a failed attempt like any other."""
    own, seen, group = Shouting(), queue.SimpleQueue(), f"values-{topic}"

    def fail(message):
        seen.put((message.reconsume_times, message.value))
        return ConsumeResult.RETRY

    def ignorant(message):
        with pytest.raises(UnknownContentTypeError, match="text/loud") as caught:
            _ = message.value
        seen.put(("ignorant", caught.value.content_type))

    async def main():
        module = surface.module
        async with entered(module.Producer("pg", namesrv=namesrv, serializer=own)) as producer:
            await call(producer.create_topic(topic, queues=1))
            await call(producer.send(Message(topic, value="hello")))
            found = [await consume(module, group, fail, 2, max_reconsume_times=1, serializers=own)]
            found.append(await consume(module, f"without-{topic}", ignorant, 1))
            async with entered(module.PullConsumer(group, namesrv=namesrv, serializers=[own])) as consumer:
                [dead] = await call(consumer.fetch_message_queues(f"%DLQ%{group}"))
                result = await call(consumer.pull_block_if_not_found(dead, 0))
                found.append([message.value for message in result.messages])
            return found

    async def consume(module, name, listener, count, **settings):
        consumer = module.PushConsumer(name, namesrv=namesrv, consume_from_where=FIRST, **settings)
        consumer.subscribe(topic, listener)
        async with entered(consumer):
            return [await in_thread(surface, seen.get) for _ in range(count)]

    retried, without, dead = surface.run(main)
    assert retried == [(0, ("hello", own)), (1, ("hello", own))]
    assert without == [("ignorant", "text/loud")]
    assert dead == [("hello", own)]


def test_requests_and_replies_have_values(surface, namesrv, topic):
    own = Shouting()
    with (
        rocketpy.sync.Producer("replies", namesrv=namesrv, serializer=own) as replier,
        rocketpy.sync.PushConsumer(f"repliers-{topic}", namesrv=namesrv, serializers=own) as consumer,
    ):
        replier.create_topic(topic, queues=1)
        consumer.subscribe(
            topic, lambda message: replier.send(create_reply_message(message, value=f"re: {message.value[0]}"))
        )
        consumer.wait_assigned(10)

        async def main():
            async with entered(surface.module.Producer("pg", namesrv=namesrv, serializer=own)) as producer:
                return await call(producer.request(Message(topic, value="question"), timeout=10))

        assert surface.run(main).value == ("re: question", own)


async def in_thread(surface, function):
    """Wait for something that a listener does, without keeping the loop of the surface."""
    if surface.name == "trio":
        return await trio.to_thread.run_sync(function, True, 20)
    if surface.name == "asyncio":
        return await asyncio.to_thread(function, True, 20)
    return function(True, 20)
