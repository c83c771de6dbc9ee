"""Lite pull consumers on every surface: told of their queues, with offsets elsewhere, and used wrongly."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest
import trio

from rocketpy import ConsumeFromWhere, Message, MessageModel, errors
from tests.surfaces.surface import call, entered

pytestmark = pytest.mark.waits("a queue goes in the background, which tells nobody when it has gone")

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def made(surface, namesrv, topic, **settings):
    group = f"{topic}_{surface.name}"
    return surface.module.LitePullConsumer(group, namesrv=namesrv, consume_from_where=FIRST, **settings)


async def drain(consumer, count):
    got = []
    while len(got) < count:
        messages = await call(consumer.poll(count - len(got), timeout=10))
        assert messages
        got += messages
    return got


async def refused(kind, match, function, *arguments, **keywords):
    with pytest.raises(kind, match=match):
        await call(function(*arguments, **keywords))


async def until(surface, condition):
    while not condition():
        if surface.name == "trio":
            await trio.sleep(0.01)
        elif surface.name == "asyncio":
            await asyncio.sleep(0.01)
        else:
            threading.Event().wait(0.01)


def test_a_hook_seeks_at_the_start_and_commits_and_closes_at_the_end(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=2)
    for number in range(10):
        cluster.send(Message(topic, b"%d" % number))
    told = []

    async def main():
        def plain_assigned(queues):
            for queue in queues:
                consumer.seek(queue, 3)
            told.append(len(queues))

        def plain_revoked(queues):
            consumer.commit()
            told.append(-len(queues))
            consumer.close()

        async def assigned(queues):
            for queue in queues:
                await consumer.seek(queue, 3)
            told.append(len(queues))

        async def revoked(queues):
            await consumer.commit()
            told.append(-len(queues))
            if surface.name == "asyncio":
                await consumer.aclose()

        hooks = (plain_assigned, plain_revoked) if surface.name == "blocking" else (assigned, revoked)
        consumer = made(surface, namesrv, topic, auto_commit=False, on_assigned=hooks[0], on_revoked=hooks[1])
        consumer.subscribe(topic)
        async with entered(consumer):
            got = await drain(consumer, 4)
            assert sorted(message.queue_offset for message in got) == [3, 3, 4, 4]
        again = made(surface, namesrv, topic)
        again.subscribe(topic)
        async with entered(again):
            await call(again.wait_assigned(5))
            assert [await call(again.committed(queue)) for queue in again.assignment] == [5, 5]

    surface.run(main)
    assert told == [2, -2]


def test_a_broadcast_keeps_its_offsets_in_a_file(surface, cluster, namesrv, topic, tmp_path):
    cluster.create_topic(topic, queues=2)
    settings = {"message_model": MessageModel.BROADCASTING, "instance_name": "one", "local_offset_store_dir": tmp_path}

    async def main():
        for turn in range(2):
            cluster.send(Message(topic, b"%d" % turn))
            consumer = made(surface, namesrv, topic, **settings)
            consumer.subscribe(topic)
            async with entered(consumer):
                assert [message.body for message in await drain(consumer, 1)] == [b"%d" % turn]
                await call(consumer.commit())

    surface.run(main)
    assert len(list(tmp_path.rglob("offsets.json"))) == 1


def test_what_cannot_be_is_told(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    for number in range(6):
        cluster.send(Message(topic, b"%d" % number))

    async def main():
        consumer = made(surface, namesrv, topic, auto_commit=False)
        (queue,) = await call(consumer.fetch_message_queues(topic))
        await refused(errors.ClientClosedError, "not started", consumer.poll)
        consumer.subscribe(topic)
        await refused(errors.ConfigError, "has used subscribe", consumer.assign, [queue, queue])
        async with entered(consumer):
            await call(consumer.wait_assigned(5))
            await refused(errors.OffsetOutOfRangeError, "from 0 to 6", consumer.seek, queue, 7)
            for timeout in (-1, math.nan, "3", True):
                for function in (consumer.poll, consumer.commit, consumer.wait_assigned):
                    await refused(errors.ConfigError, "seconds or a timedelta, 0 or more", function, timeout=timeout)
            # As long as can be said is for ever, also where no float is so large.
            first, second = [(await call(consumer.poll(1, timeout=timeout)))[0] for timeout in (1e300, 10**400)]
            consumer.ack(second)
            consumer.ack(second)
            await call(consumer.commit())
            assert await call(consumer.committed(queue)) == 0
            consumer.ack(first)
            await call(consumer.commit())
            assert await call(consumer.committed(queue)) == 2
            await call(consumer.commit({queue: 5000}))
            consumer.unsubscribe(topic)
            await until(surface, lambda: not consumer.assignment)
            for function in (consumer.seek, lambda queue, offset: consumer.commit({queue: offset})):
                await refused(errors.QueueNotAssignedError, "no longer, belong", function, queue, 1)
            await refused(errors.ConfigError, "nothing is subscribed", consumer.poll)
            with pytest.raises(errors.RequestTimeoutError, match="nothing is subscribed"):
                await call(consumer.wait_assigned(0.01))
            consumer.ack(first)
        for function in (consumer.poll, consumer.commit, consumer.lag):
            await refused(errors.ClientClosedError, "make a new one", function)
        await refused(errors.ClientClosedError, "make a new one", consumer.subscribe, topic)

    surface.run(main)


def test_an_offset_that_nothing_was_pulled_up_to_is_committed_with_a_warning(surface, cluster, namesrv, topic, caplog):
    cluster.create_topic(topic, queues=1)

    async def main():
        consumer = made(surface, namesrv, topic)
        consumer.subscribe(topic)
        async with entered(consumer):
            (queue,) = await call(consumer.wait_assigned(5))
            await call(consumer.commit({queue: 5}))
            assert await call(consumer.committed(queue)) == 5

    surface.run(main)
    (said,) = [record.message for record in caplog.records if ", which was pulled only up to" in record.message]
    assert "To skip messages on purpose, use seek" in said


def test_a_pull_consumer_is_asked_for_the_bounds_of_queues(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    for number in range(3):
        cluster.send(Message(topic, b"%d" % number))

    async def main():
        async with entered(surface.module.PullConsumer(f"{topic}_p", namesrv=namesrv)) as consumer:
            (queue,) = await call(consumer.fetch_message_queues(topic))
            assert (await call(consumer.beginning_offset(queue)), await call(consumer.end_offset(queue))) == (0, 3)
            assert await call(consumer.offset_for_timestamp(queue, 0)) == 0
            await refused(errors.ConfigError, r"rocketpy\.MessageQueue", consumer.end_offset, topic)

    surface.run(main)
