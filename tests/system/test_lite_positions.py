"""Where a lite pull consumer is in its queues: seek, pause, times, and queues that come and go."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    NameServerUnreachableError,
    OffsetOutOfRangeError,
    QueueNotAssignedError,
    TopicNotFoundError,
)
from rocketpy.message import MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import committed, drain, queues_of, wait_until, world

# --- positions ----------------------------------------------------------------------------------------------


async def test_PL9_seek(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        (queue,) = queues_of(1)
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(30)
            assert (await drain(consumer, 5))[-1].queue_offset == 4
            await consumer.seek(queue, 20)
            assert consumer.position(queue) == 20
            assert [message.queue_offset for message in await drain(consumer, 3)] == [20, 21, 22]
            await consumer.seek_to_begin(queue)
            assert [message.queue_offset for message in await drain(consumer, 30)] == list(range(30))
            await consumer.seek_to_end(queue)
            assert await consumer.poll(timeout=1) == []
            await w.send(1, start=30)
            assert [message.body for message in await drain(consumer, 1)] == [b"30"]
            await consumer.seek(queue, 31)
            await consumer.commit()
            await consumer.seek(queue, 12)
            # The group is there now, however it is committed.
            await consumer.commit()
            assert await committed(consumer) == [12]


async def test_PL9_seek_refuses_what_is_not_there(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        (queue,) = queues_of(1)
        consumer = w.lite()
        consumer.assign([queue])
        with pytest.raises(ClientClosedError):
            await consumer.seek(queue, 0)
        async with consumer:
            await w.send(3)
            with pytest.raises(OffsetOutOfRangeError, match="seek to an offset from 0 to 3") as info:
                await consumer.seek(queue, 4)
            assert (info.value.offset, info.value.min_offset, info.value.max_offset) == (4, 0, 3)
            for wrong in (-1, True, 1.0, None, 2**63):
                with pytest.raises(ConfigError, match="an offset must be"):
                    await consumer.seek(queue, wrong)  # type: ignore[arg-type]
            other = MessageQueue("Orders", "broker-a", 1)
            for call in (consumer.seek_to_begin, consumer.seek_to_end):
                with pytest.raises(QueueNotAssignedError):
                    await call(other)
            with pytest.raises(QueueNotAssignedError):
                await consumer.seek(other, 0)
            with pytest.raises(ConfigError, match=r"must be a rocketpy\.MessageQueue"):
                await consumer.seek(("Orders", "broker-a", 0), 0)  # type: ignore[arg-type]
            assert len(await drain(consumer, 3)) == 3


async def test_PL10_the_offset_for_a_time(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        (queue,) = queues_of(1)
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(5)
            await trio.sleep(100)
            await w.send(5, start=5)
            got = await drain(consumer, 10)
            moment = got[5].store_timestamp
            assert await consumer.offset_for_timestamp(queue, moment) == 5
            await consumer.seek_to_timestamp(queue, moment)
            assert [message.body for message in await drain(consumer, 5)] == [b"%d" % number for number in range(5, 10)]
            assert await consumer.beginning_offset(queue) == 0
            assert await consumer.end_offset(queue) == 10
            for look_like_seconds in (1, 1_700_000_000, 10**11 - 1):
                with pytest.raises(ConfigError, match="which looks like seconds: give milliseconds"):
                    await consumer.offset_for_timestamp(queue, look_like_seconds)
                with pytest.raises(ConfigError, match="which looks like seconds: give milliseconds"):
                    await consumer.seek_to_timestamp(queue, look_like_seconds)
            assert await consumer.offset_for_timestamp(queue, 0) == 0
            for wrong in (-1, 1.5, "now", float("nan")):
                with pytest.raises(ConfigError, match="milliseconds since 1970"):
                    await consumer.offset_for_timestamp(queue, wrong)  # type: ignore[arg-type]


async def test_PL10_pause_and_resume(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        zero, one = queues_of(2)
        consumer = w.lite()
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(40)
            await trio.sleep(1)  # so that something of both is held
            consumer.pause([zero])
            assert {message.queue for message in await drain(consumer, 20)} == {one}
            assert await consumer.poll(timeout=30) == []
            await w.send(40, start=40)
            assert {message.queue for message in await drain(consumer, 20)} == {one}
            await trio.sleep(300)  # longer than after which a queue that is not pulled is taken again
            assert consumer.status().queues[zero].paused == "paused"
            assert consumer.assignment == (zero, one)
            consumer.resume([zero, one])
            got = await drain(consumer, 40)
            assert [message.queue_offset for message in got] == list(range(40))


async def test_PL10_queues_before_the_start_and_after_it(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.lite()
        assert await consumer.fetch_message_queues("Orders") == tuple(queues_of(4))
        with pytest.raises(TopicNotFoundError):
            await consumer.fetch_message_queues("Nowhere")
        with pytest.raises(ConfigError):
            await consumer.fetch_message_queues("no such/topic")
        with pytest.raises(NameServerUnreachableError):
            await w.lite(namesrv="127.0.0.1:1").fetch_message_queues("Orders", timeout=1)
        consumer.assign(await consumer.fetch_message_queues("Orders"))
        async with consumer:
            assert await consumer.fetch_message_queues("Orders") == consumer.assignment
        with pytest.raises(ClientClosedError):
            await consumer.fetch_message_queues("Orders")


async def test_PL10_a_function_is_told_of_queues_that_come_and_go(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(topics=("Orders", "Bills"), queues=2) as w:
        told: list[tuple[str, int]] = []

        def note(topic: str, queues: tuple[MessageQueue, ...]) -> None:
            told.append((topic, len(queues)))
            raise ValueError("a bug of the user's")

        async def note_later(topic: str, queues: tuple[MessageQueue, ...]) -> None:
            told.append((topic, len(queues)))

        consumer = w.lite()
        consumer.subscribe("Orders")
        consumer.on_queues_changed("Orders", note)
        async with consumer:
            consumer.on_queues_changed("Bills", note_later)
            await trio.sleep(100)
            assert told == []
            await w.producer.create_topic("Orders", queues=4)
            await w.producer.create_topic("Bills", queues=3)
            await trio.sleep(60)
            assert sorted(told) == [("Bills", 3), ("Orders", 4)]
            assert "the function given to on_queues_changed for Orders failed" in caplog.text
            await wait_until(lambda: len(consumer.assignment) == 4)
            for wrong in (None, lambda: None):
                with pytest.raises(ConfigError):
                    consumer.on_queues_changed("Orders", wrong)  # type: ignore[arg-type]


async def test_lag_counts_what_is_not_handed_out(autojump_clock: MockClock) -> None:
    async with world(queues=2) as w:
        consumer = w.lite(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe("Orders")
        async with consumer:
            await w.send(20)
            await drain(consumer, 6)
            assert sum((await consumer.lag()).values()) == 14
