"""The asyncio lite pull consumer and pull consumer: polls in tasks, cancelled, shared, in the wrong place."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from rocketpy import PullStatus
from rocketpy.aio import ConsumeFromWhere, LitePullConsumer, Message, Producer, PullConsumer
from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    OffsetOutOfRangeError,
    QueueNotAssignedError,
    ServiceCrashedError,
)
from tests.aio.running import in_asyncio

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def fill(namesrv, topic, count, queues=4, first=0):
    async with Producer("pg", namesrv=namesrv) as producer:
        await producer.create_topic(topic, queues=queues)
        for number in range(first, first + count):
            await producer.send(Message(topic, b"%d" % number))


def lite(namesrv, topic, **settings):
    return LitePullConsumer(f"{topic}_g", namesrv=namesrv, consume_from_where=FIRST, **settings)


async def drain(consumer, count):
    got = []
    async with asyncio.timeout(20):
        while len(got) < count:
            got += await consumer.poll(timeout=1)
    return got


@in_asyncio
async def test_PL8_it_polls_and_commits(namesrv, topic):
    await fill(namesrv, topic, 40)
    async with lite(namesrv, topic, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        assert len(await consumer.wait_assigned(10)) == 4
        got = await drain(consumer, 40)
        assert Counter(message.body for message in got) == {b"%d" % number: 1 for number in range(40)}
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in consumer.assignment] == [10, 10, 10, 10]
        first = consumer.assignment[0]
        consumer.commit_soon({first: 3})
        async with asyncio.timeout(10):
            while await consumer.committed(first) != 3:
                continue
        assert consumer.status().group == f"{topic}_g"


@in_asyncio
async def test_a_loop_gives_back_what_it_has_fetched_ahead(namesrv, topic):
    await fill(namesrv, topic, 30, queues=1)
    async with lite(namesrv, topic, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        (queue,) = await consumer.wait_assigned(10)
        seen = []
        async for message in consumer:
            seen.append(message.queue_offset)
            if len(seen) == 13:
                break
        assert consumer.position(queue) == 13
        await consumer.commit()
        assert await consumer.committed(queue) == 13
        assert [message.queue_offset for message in await consumer.poll(3)] == [13, 14, 15]
        await consumer.seek(queue, 28)
        assert [(await anext(consumer)).queue_offset for _ in range(2)] == [28, 29]


@in_asyncio
async def test_a_loop_ends_when_another_task_closes(namesrv, topic):
    await fill(namesrv, topic, 10)
    consumer = lite(namesrv, topic)
    consumer.subscribe(topic)
    await consumer.start()
    got = []

    async def loop():
        async for message in consumer:
            got.append(message.body)  # noqa: PERF401  the test looks at it meanwhile

    task = asyncio.create_task(loop())
    cache = consumer._inner._running.cache
    async with asyncio.timeout(20):
        # Until it has them all, and waits for more.
        while len(got) < 10 or not cache.arrival.statistics().tasks_waiting:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await consumer.aclose()
    await asyncio.wait_for(task, 10)
    assert len(got) == 10
    with pytest.raises(ClientClosedError):
        await consumer.poll()


@pytest.mark.slow
@pytest.mark.waits("tasks are cancelled after two milliseconds")
@in_asyncio
async def test_a_task_that_is_cancelled_in_a_poll_loses_nothing(namesrv, topic):
    await fill(namesrv, topic, 0)
    async with lite(namesrv, topic) as consumer:
        consumer.subscribe(topic)
        await consumer.wait_assigned(10)
        sending = asyncio.create_task(fill(namesrv, topic, 200))
        got = []
        async with asyncio.timeout(30):
            while len(got) < 200:
                poll = asyncio.create_task(consumer.poll(7, timeout=20))
                done, _ = await asyncio.wait([poll], timeout=0.002)
                if not done:
                    poll.cancel()
                try:
                    got += [message.body for message in await poll]
                except asyncio.CancelledError:
                    continue
        await sending
        assert Counter(got) == {b"%d" % number: 1 for number in range(200)}


@pytest.mark.slow
@pytest.mark.waits("who finds nothing looks again after half a second")
@in_asyncio
async def test_tasks_that_poll_share_the_messages(namesrv, topic):
    await fill(namesrv, topic, 100)
    async with lite(namesrv, topic) as consumer:
        consumer.subscribe(topic)
        got = []

        async def work():
            while len(got) < 100:
                for message in await consumer.poll(3, timeout=0.5):
                    consumer.ack(message)
                    got.append(message.body)

        await asyncio.gather(*(work() for _ in range(4)))
        assert Counter(got) == {b"%d" % number: 1 for number in range(100)}
        await consumer.commit()
        assert [await consumer.committed(queue) for queue in consumer.assignment] == [25] * 4


@pytest.mark.waits("a queue that is paused gives nothing for a while")
@in_asyncio
async def test_PL9_PL10_single_queues(namesrv, topic):
    await fill(namesrv, topic, 20, queues=2)
    consumer = lite(namesrv, topic)
    zero, one = await consumer.fetch_message_queues(topic)
    consumer.assign([zero])
    async with consumer:
        assert await consumer.fetch_message_queues(topic) == (zero, one)
        got = await drain(consumer, 10)
        assert await consumer.lag() == {zero: 0}
        assert (await consumer.beginning_offset(one), await consumer.end_offset(one)) == (0, 10)
        assert await consumer.offset_for_timestamp(zero, got[0].store_timestamp) == 0
        await consumer.seek_to_timestamp(zero, got[0].store_timestamp)
        await consumer.seek_to_begin(zero)
        consumer.pause([zero])
        assert await consumer.poll(timeout=0.2) == []
        consumer.resume([zero])
        assert len(await drain(consumer, 10)) == 10
        await consumer.seek_to_end(zero)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.seek(zero, 11)
        with pytest.raises(QueueNotAssignedError):
            await consumer.seek(one, 1)
        with pytest.raises(QueueNotAssignedError):
            consumer.pause([zero, one])
        with pytest.raises(QueueNotAssignedError):
            consumer.commit_soon({one: 1})
        plain = (consumer.commit_soon, lambda: consumer.pause([zero]), lambda: consumer.resume([zero]))
        running = consumer._inner._running
        running.crash = ServiceCrashedError("a bug")
        for call in plain:
            with pytest.raises(ServiceCrashedError, match="a bug"):
                call()
        running.crash = None
    for call in (consumer.commit_soon, lambda: consumer.pause([]), lambda: consumer.resume([])):
        with pytest.raises(ClientClosedError):
            call()


@pytest.mark.waits("the routes are looked at every 0.2 s")
@in_asyncio
async def test_PL10_functions_are_told_in_the_loop(namesrv, topic):
    await fill(namesrv, topic, 0, queues=2)
    told, seen = asyncio.Event(), []

    async def later(name, queues):
        seen.append((name, len(queues), threading.current_thread().name))
        told.set()

    consumer = lite(namesrv, topic, poll_name_server_interval=0.2)
    consumer.on_queues_changed(topic, later)
    async with consumer:
        async with asyncio.timeout(20):
            # Until two are known, three are no change.
            while not consumer._inner._watch._last_queues.get(topic):  # noqa: ASYNC110
                await asyncio.sleep(0)
        await fill(namesrv, topic, 0, queues=3)
        await asyncio.wait_for(told.wait(), 20)
    assert seen == [(topic, 3, threading.current_thread().name)]


@in_asyncio
async def test_another_loop_is_refused(namesrv, topic):
    async with lite(namesrv, topic) as consumer:
        consumer.subscribe(topic)

        def elsewhere():
            with pytest.raises(ConfigError, match="belongs to the event loop"):
                asyncio.run(consumer.poll())

        await asyncio.to_thread(elsewhere)


@in_asyncio
async def test_PL7_pull_consumer(namesrv, topic):
    await fill(namesrv, topic, 10, queues=1)
    consumer = PullConsumer(f"{topic}_p", namesrv=namesrv)
    (queue,) = await consumer.fetch_message_queues(topic)
    async with consumer:
        found = await consumer.pull(queue, 4, max_messages=3)
        assert (found.status, [message.body for message in found.messages]) == (PullStatus.FOUND, [b"4", b"5", b"6"])
        assert (await consumer.pull_block_if_not_found(queue, 9)).next_begin_offset == 10
        assert (await consumer.pull(queue, 10, timeout=3)).status is PullStatus.NO_NEW_MSG
        await consumer.update_consume_offset(queue, 6)
        assert await consumer.fetch_consume_offset(queue) == 6
