"""Single messages are found, queues read, messages sent again; and dead letters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import trio
from trio.testing import MockClock

from rocketpy import (
    BrokerNotFoundError,
    BrokersFailedError,
    ConfigError,
    GroupNotFoundError,
    Message,
    MessageExt,
    MessageNotFoundError,
    Producer,
    RetryLater,
    TopicNotFoundError,
)
from rocketpy.admin import TrackStatus
from rocketpy.client.api.offset import earliest_store_time
from rocketpy.message import MessageQueue
from rocketpy.seams import wall_ms
from rocketpy.wire.enums import ConsumeFromWhere
from tests.admin.scene import scene
from tests.system.consuming import Recorder, wait_until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def test_Q3_a_message_by_either_id(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        sent = await s.world.producer.send(Message("Orders", b"one", keys=["a"]))
        await s.world.producer.send(Message("Orders", b"two", keys=["a"]))
        for found in (
            await s.admin.messages.view(sent.offset_message_id),
            await s.admin.messages.view(sent.offset_message_id, topic="Orders"),
            await s.admin.messages.view(sent.message_id, topic="Orders"),
        ):
            assert (found.body, found.queue, found.queue_offset) == (b"one", sent.queue, sent.queue_offset)
        assert [each.body for each in await s.admin.messages.query_unique("Orders", sent.message_id)] == [b"one"]
        assert await s.admin.messages.query_unique("Orders", "AC1100010002" + "0" * 20) == ()


async def test_Q3_when_the_oldest_message_of_a_queue_was_stored(autojump_clock: MockClock) -> None:
    async with scene() as s:
        queue, other = (await s.world.producer.queues("Orders"))[:2]
        begun = wall_ms()
        await trio.sleep(5)
        for body in (b"one", b"two"):
            await s.world.producer.send(Message("Orders", body), queue=queue)
            await trio.sleep(5)
        first = (await s.admin.messages.read(queue))[0]
        pool, address = s.world.producer.client.pool, s.world.cluster.brokers[0].address
        assert await earliest_store_time(pool, address, queue, timeout=3) == first.store_timestamp
        assert begun + 5_000 <= first.store_timestamp < begun + 10_000
        assert await earliest_store_time(pool, address, other, timeout=3) == -1
        elsewhere = MessageQueue(topic="Nowhere", broker_name=queue.broker_name, queue_id=0)
        assert await earliest_store_time(pool, address, elsewhere, timeout=3) == -1


async def test_messages_that_are_not_there(autojump_clock: MockClock) -> None:
    async with scene() as s:
        sent = await s.world.producer.send(Message("Orders", b"one"))
        with pytest.raises(MessageNotFoundError, match="pass the topic too") as caught:
            await s.admin.messages.view(sent.message_id)
        assert caught.value.message_id == sent.message_id
        unknown = "AC1100010002" + "0" * 20
        with pytest.raises(MessageNotFoundError, match=r"in the topic Orders, by its unique id: .* not registered$"):
            await s.admin.messages.view(unknown, topic="Orders")
        elsewhere = sent.offset_message_id[:-4] + "FFFF"
        with pytest.raises(MessageNotFoundError, match="it may have been deleted"):
            await s.admin.messages.view(elsewhere)
        for wrong in ("", "XY", "12", sent.offset_message_id + "0"):
            with pytest.raises(ConfigError):
                await s.admin.messages.view(wrong)
        with pytest.raises(TopicNotFoundError):
            await s.admin.messages.view(sent.message_id, topic="Nowhere")


async def test_messages_by_key_are_those_with_the_key(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        for number in range(8):
            await s.world.producer.send(
                Message("Orders", b"%d" % number, keys=["odd" if number % 2 else "even", "all"])
            )
            await trio.sleep(1)
        found = await s.admin.messages.query("Orders", "odd")
        assert [each.body for each in found] == [b"1", b"3", b"5", b"7"]
        assert len(await s.admin.messages.query("Orders", "all", max_messages=3)) == 3
        assert await s.admin.messages.query("Orders", "none") == ()
        middle = found[1].store_timestamp
        assert [each.body for each in await s.admin.messages.query("Orders", "odd", begin=middle)] == [b"3", b"5", b"7"]
        assert [each.body for each in await s.admin.messages.query("Orders", "odd", end=middle)] == [b"1", b"3"]
        for wrong in ("", " ", "a b", None):
            with pytest.raises(ConfigError, match="a key must be"):
                await s.admin.messages.query("Orders", wrong)  # type: ignore[arg-type]
        s.down(0)
        with pytest.raises(BrokersFailedError, match="looking for odd in Orders") as caught:
            await s.admin.messages.query("Orders", "odd")
        assert {each.broker_name for each in caught.value.result} == {"broker-b"}


async def test_a_range_of_a_queue(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        await s.world.send(50, tags="a")
        await s.world.send(10, start=50, tags="b")
        queue = MessageQueue("Orders", "broker-a", 0)
        read = s.admin.messages.read
        assert [each.queue_offset for each in await read(queue)] == list(range(32))
        assert [each.queue_offset for each in await read(queue, begin=40, max_messages=100)] == list(range(40, 60))
        assert [each.queue_offset for each in await read(queue, begin=5, end=8)] == [5, 6, 7]
        assert [each.body for each in await read(queue, tags="b || c", max_messages=2)] == [b"50", b"51"]
        assert await read(queue, begin=60) == ()
        assert await read(queue, begin=10, end=5) == ()
        assert await s.admin.offsets.lags() == ()  # looking commits nothing
        for arguments in ({"begin": -1}, {"end": -1}, {"max_messages": 0}):
            with pytest.raises(ConfigError):
                await read(queue, **arguments)


async def test_the_oldest_messages_of_many_queues(autojump_clock: MockClock) -> None:
    async with scene(2, queues=6) as s:
        for start in range(0, 60, 2):  # two at a time with the same store time
            await s.world.send(2, start=start)
            await trio.sleep(1)
        every = await s.admin.messages.by_time("Orders", 0, max_messages=100)
        assert len(every) == 60
        for count in (1, 2, 7, 59, 60):
            found = await s.admin.messages.by_time("Orders", 0, max_messages=count)
            assert [each.body for each in found] == [each.body for each in every[:count]]


async def test_messages_of_a_span_of_time(autojump_clock: MockClock) -> None:
    async with scene(2, queues=2) as s:
        times = []
        for number in range(8):
            times.append(wall_ms())
            await s.world.producer.send(Message("Orders", b"%d" % number))
            await trio.sleep(1)
        by_time = s.admin.messages.by_time
        assert [each.body for each in await by_time("Orders", 0)] == [b"%d" % number for number in range(8)]
        assert [each.body for each in await by_time("Orders", times[2], times[5] - 1)] == [b"2", b"3", b"4"]
        begin = datetime.fromtimestamp(times[4] / 1000, UTC)
        assert [each.body for each in await by_time("Orders", begin, max_messages=2)] == [b"4", b"5"]
        with pytest.raises(ConfigError, match="end must not be before begin"):
            await by_time("Orders", times[4], times[2])


async def test_a_message_is_sent_again(autojump_clock: MockClock) -> None:
    async with scene(topics=("Orders", "Other"), queues=1) as s:
        sent = await s.world.producer.send(
            Message("Orders", b"one", keys=["k"], tags="t", properties={"user": "value"})
        )
        message = await s.admin.messages.view(sent.offset_message_id)
        again = await s.admin.messages.resend(message)
        assert (again.message_id, again.queue_offset) == (sent.message_id, 1)
        other = await s.admin.messages.resend(message, topic="Other")
        [found] = await s.admin.messages.read(other.queue)
        assert (found.body, found.tags, found.properties["user"], *found.keys) == (b"one", "t", "value", "k")
        assert len(await s.admin.messages.query_unique("Orders", sent.message_id)) == 2
        with pytest.raises(ConfigError, match="read from a broker"):
            await s.admin.messages.resend(Message("Orders", b"x"))  # type: ignore[arg-type]


async def test_dead_letters_are_listed_and_replayed(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        healthy = False
        recorder = Recorder(lambda message: None if healthy else RetryLater(-1))
        consumer = s.world.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", recorder)
        with pytest.raises(GroupNotFoundError):
            await s.admin.messages.dead_letters("billing")
        async with consumer:
            assert await s.admin.messages.dead_letters("billing") == ()
            await s.world.send(3)
            reads = s.world.cluster.brokers[0].store.reads
            await wait_until(lambda: reads.max_offset("%DLQ%billing", 0) == 3)
            found = await s.admin.messages.dead_letters("billing")
            assert [each.body for each in found] == [b"0", b"1", b"2"]
            assert len(await s.admin.messages.dead_letters("billing", max_messages=2)) == 2
            assert await s.admin.messages.dead_letters("billing", begin=wall_ms() + 1000) == ()
            assert (await s.admin.messages.replay_dead_letters("billing", dry_run=True)).replayed == 3
            healthy = True
            done = await s.admin.messages.replay_dead_letters("billing", limit=2)
            assert (done.replayed, done.remaining, done.topics) == (2, 1, {"Orders": 2})
            assert (await s.admin.messages.replay_dead_letters("billing")).replayed == 1
            await wait_until(lambda: len(recorder.messages) == 6)
        for wrong in ("%DLQ%billing", "", None):
            with pytest.raises(ConfigError):
                await s.admin.messages.dead_letters(wrong)  # type: ignore[arg-type]
            with pytest.raises(ConfigError):
                await s.admin.messages.replay_dead_letters(wrong)  # type: ignore[arg-type]


async def test_what_groups_have_done_with_a_message(autojump_clock: MockClock) -> None:
    async with scene(queues=1) as s:
        sent = await s.world.producer.send(Message("Orders", b"one", tags="b"))
        for group in ("behind", "ahead"):
            await s.admin.groups.create(group)
            await s.admin.offsets.commit(group, sent.queue, int(group == "ahead"))
        message = await s.admin.messages.view(sent.offset_message_id)
        made = {each.group: each.status for each in await s.admin.messages.track(message)}
        assert made == {"ahead": TrackStatus.CONSUMED, "behind": TrackStatus.OFFLINE}
        with pytest.raises(BrokerNotFoundError, match=r"comes from the broker .*, which is not registered"):
            await s.admin.messages.track(MessageExt("Orders", b"made elsewhere"))
        consumers = [
            s.world.consumer("all", consume_from_where=FIRST),
            s.world.consumer("filtering", consume_from_where=FIRST),
            s.world.consumer("broadcast", message_model="broadcasting"),
            s.world.lite("lite"),
        ]
        recorder = Recorder()
        for consumer, tags in zip(consumers, (None, "a", None, None), strict=True):
            arguments = () if consumer is consumers[-1] else (recorder,)
            consumer.subscribe("Orders", *arguments, tags=tags)
        async with consumers[0], consumers[1], consumers[2], consumers[3]:
            await recorder.wait_count(1)
            await trio.sleep(10)  # offsets are committed
            made = {each.group: each.status for each in await s.admin.messages.track(message)}
        assert made["all"] is TrackStatus.CONSUMED
        assert made["filtering"] is TrackStatus.FILTERED
        assert made["broadcast"] is TrackStatus.BROADCAST
        assert made["lite"] is TrackStatus.PULLED


async def test_the_trace_of_a_message(autojump_clock: MockClock) -> None:
    async with scene(queues=1, trace_topic_enable=True) as s:
        recorder = Recorder()
        consumer = s.world.consumer(consume_from_where=FIRST, enable_msg_trace=True)
        consumer.subscribe("Orders", recorder)
        async with consumer:
            sent = await s.world.producer.send(Message("Orders", b"one", keys=["k"]))
            await s.world.producer.send(Message("Orders", b"two"))
            await recorder.wait_count(2)
            await trio.sleep(10)
        for name in (sent.message_id, "k"):
            found = await s.admin.messages.trace(name)
            assert [each.kind for each in found] == ["SubBefore", "SubAfter"]
            assert {each.message_id for each in found} == {sent.message_id}


async def test_the_trace_on_the_brokers_that_answer(autojump_clock: MockClock) -> None:
    async with scene(2, queues=1) as s:
        await s.admin.topics.create("Traces", queues=1, brokers=["broker-a"])
        where = {"namesrv": s.world.cluster.name_server_addresses, "network": s.world.cluster.network}
        async with Producer("traced", enable_msg_trace=True, trace_topic="Traces", **where) as producer:
            sent = await producer.send(Message("Orders", b"one"))
        await s.admin.topics.create("Traces", queues=1, exist_ok=True)
        await trio.sleep(10)
        s.down(1)
        with pytest.raises(BrokersFailedError, match="1 of 2 servers") as caught:
            await s.admin.messages.trace(sent.message_id, trace_topic="Traces")
        assert [(each.kind, each.message_id) for each in caught.value.result] == [("Pub", sent.message_id)]


@pytest.mark.parametrize("tags", [b"x", 1, ["created"]])
async def test_tags_that_are_no_text(autojump_clock: MockClock, tags: object) -> None:
    async with scene() as s:
        with pytest.raises(ConfigError, match="tags must be text"):
            await s.admin.messages.read(MessageQueue("Orders", "broker-a", 0), tags=tags)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="tags must be text"):
            await s.admin.messages.by_time("Orders", 0, tags=tags)  # type: ignore[arg-type]


async def test_switches_that_are_no_bools(autojump_clock: MockClock) -> None:
    async with scene() as s:
        with pytest.raises(ConfigError, match="dry_run must be True or False"):
            await s.admin.messages.replay_dead_letters("billing", dry_run="no")  # type: ignore[arg-type]
        for create in (s.admin.topics.create, s.admin.groups.create):
            with pytest.raises(ConfigError, match="exist_ok must be True or False"):
                await create("Orders", exist_ok=0)  # type: ignore[operator]
