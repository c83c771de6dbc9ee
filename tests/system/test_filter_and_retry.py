"""Tags, several topics, and messages that come again: a whole cluster in virtual time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import Message, MessageExt
from rocketpy.results import ConsumeFromWhere, ConsumeResult, RetryLater
from tests.system.consuming import Recorder, World, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
LONG = "t" * 300


async def send_tagged(w: World, *tags: str | None, topic: str = "Orders") -> None:
    for tag in tags:
        await w.producer.send(Message(topic, f"{tag}".encode(), tags=tag))


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        (None, {"a", "b", "A", "c", LONG, "None"}),
        ("*", {"a", "b", "A", "c", LONG, "None"}),
        ("", {"a", "b", "A", "c", LONG, "None"}),
        ("a", {"a"}),
        ("A", {"A"}),
        ("a||b", {"a", "b"}),
        ("  a ||  c  || ", {"a", "c"}),
        ("a || a", {"a"}),
        ("x || y", set()),
        (LONG, {LONG}),
        ("a,b", set()),
    ],
)
async def test_F1_tags(autojump_clock: MockClock, tags: str | None, wanted: set[str]) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got, tags=tags)
        async with consumer:
            await send_tagged(w, "a", "b", "A", "c", LONG, None)
            await trio.sleep(1)
            assert {body.decode() for body in got.bodies} == wanted
            assert len(got.messages) == len(wanted)
            # What is not wanted is passed all the same: nothing of it is looked at again.
            await wait_until(lambda: sum(each.commit_offset for each in consumer.status().queues.values()) == 6)


async def test_F1_groups_with_different_tags(autojump_clock: MockClock) -> None:
    async with world() as w, AsyncExitStack() as stack:
        listeners = {}
        for group, tags in (("first", "a"), ("second", "b"), ("third", "a || b"), ("fourth", "*")):
            listeners[group] = Recorder()
            consumer = w.consumer(group, consume_from_where=FIRST)
            consumer.subscribe("Orders", listeners[group], tags=tags)
            await stack.enter_async_context(consumer)
        await send_tagged(w, *"ababab")
        await trio.sleep(1)
        counts = {group: dict(listener.bodies) for group, listener in listeners.items()}
        both = {b"a": 3, b"b": 3}
        assert counts == {"first": {b"a": 3}, "second": {b"b": 3}, "third": both, "fourth": both}


async def test_F1_two_consumers_of_a_group_share_what_they_want(autojump_clock: MockClock) -> None:
    async with world() as w, AsyncExitStack() as stack:
        got = Recorder()
        consumers = []
        for _ in range(2):
            consumer = w.consumer(consume_from_where=FIRST)
            consumer.subscribe("Orders", got, tags="a")
            consumers.append(await stack.enter_async_context(consumer))
        await wait_until(lambda: [len(each.assignment) for each in consumers] == [2, 2])
        await send_tagged(w, *"ab" * 10)
        await got.wait_count(10)
        await trio.sleep(1)
        assert dict(got.bodies) == {b"a": 10}


async def test_F1_tags_may_be_changed_while_it_runs(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got, tags="a")
        async with consumer:
            await send_tagged(w, "a", "b")
            await got.wait_count(1)
            await trio.sleep(20)
            consumer.subscribe("Orders", got, tags="b")
            await trio.sleep(20)
            await send_tagged(w, "a", "b")
            await got.wait_count(2)
            await trio.sleep(20)
            assert [message.body for message in got.messages] == [b"a", b"b"]


async def test_F2_tags_with_the_same_hash_are_told_apart(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got, tags="Aa")
        async with consumer:
            await send_tagged(w, "BB", "Aa", "BB", "BB")
            await got.wait_count(1)
            await wait_until(lambda: consumer.status().queues[consumer.assignment[0]].commit_offset == 4)
            assert dict(got.bodies) == {b"Aa": 1}
            assert consumer.statistics().filtered == 3


async def test_PC8_one_consumer_on_several_topics(autojump_clock: MockClock) -> None:
    topics = ("Orders", "Bills", "Parcels")
    async with world(brokers=2, topics=topics, queues=2) as w:
        listeners = {topic: Recorder() for topic in topics}
        consumer = w.consumer(consume_from_where=FIRST)
        for topic, listener in listeners.items():
            consumer.subscribe(topic, listener, tags="a" if topic == "Bills" else None)
        async with consumer:
            assert len(consumer.assignment) == 12
            for topic in topics:
                await send_tagged(w, *"aab" * 5, topic=topic)
            await trio.sleep(1)
            counts = {topic: dict(listener.bodies) for topic, listener in listeners.items()}
            both = {b"a": 10, b"b": 5}
            assert counts == {"Orders": both, "Bills": {b"a": 10}, "Parcels": both}


async def test_PC8_several_consumers_on_several_topics(autojump_clock: MockClock) -> None:
    topics = ("Orders", "Bills")
    async with world(topics=topics) as w, AsyncExitStack() as stack:
        listeners = {topic: Recorder() for topic in topics}
        consumers = []
        for _ in range(2):
            consumer = w.consumer(consume_from_where=FIRST)
            for topic, listener in listeners.items():
                consumer.subscribe(topic, listener)
            consumers.append(await stack.enter_async_context(consumer))
        await wait_until(lambda: [len(each.assignment) for each in consumers] == [4, 4])
        sent = [await w.send(40, topic=topic) for topic in topics]
        for listener, bodies in zip(listeners.values(), sent, strict=True):
            await listener.wait_count(40)
            assert listener.bodies == dict.fromkeys(bodies, 1)


async def test_PL11_a_group_that_is_new_on_a_queue_that_begins_at_0_gets_everything(
    autojump_clock: MockClock,
) -> None:
    async with world(queues=1) as w:
        sent = await w.send(10)
        got, fresh = Recorder(), Recorder()
        consumer = w.consumer(consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
        consumer.subscribe("Orders", got)
        async with consumer:
            await got.wait_count(10)
            assert got.bodies == dict.fromkeys(sent, 1)
        await w.send(1, topic="Orders", start=99)
        another = w.consumer("another")
        another.subscribe("Orders", fresh)
        async with another:
            await fresh.wait_count(11)


# --- coming again ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raise", "RETRY", "junk", "timeout"])
async def test_RT1_what_failed_comes_again_later_and_later(autojump_clock: MockClock, how: str) -> None:
    async with world(queues=1) as w:
        seen: list[tuple[float, int, str, str]] = []

        async def listener(message: MessageExt) -> object:
            seen.append((trio.current_time(), message.reconsume_times, message.topic, message.message_id))
            if len(seen) > 3:
                return None
            if how == "raise":
                raise ValueError("not now")
            if how == "timeout":
                await trio.sleep(3.5)
                return None
            return ConsumeResult.RETRY if how == "RETRY" else "junk"

        consumer = w.consumer(consume_from_where=FIRST, consume_timeout=2)
        consumer.subscribe("Orders", listener)
        async with consumer:
            result = await w.producer.send(Message("Orders", b"hot", keys=["k"], tags="t"))
            await wait_until(lambda: len(seen) == 4, within=200)
            times = [at for at, *_ in seen]
            gaps = [b - a for a, b in pairwise(times)]
            delay = 2 if how == "timeout" else 0
            expected = [10, 10, 10] if how == "timeout" else [10, 30, 60]
            for gap, wanted in zip(gaps, expected, strict=True):
                assert gap == pytest.approx(wanted + delay, abs=1.5)
            assert [count for _, count, *_ in seen] == [0, 1, 2, 3]
            assert {topic for *_, topic, _ in seen} == {"Orders"}
            assert {message_id for *_, message_id in seen} == {result.message_id}
            await trio.sleep(300)
            assert len(seen) == 4


async def test_RT1_a_listener_may_choose_the_delay(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder(lambda message: RetryLater(2) if message.reconsume_times < 2 else None)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(1)
            await got.wait_count(3)
            gaps = [b - a for a, b in pairwise(got.times)]
            assert gaps == pytest.approx([5, 5], abs=1.5)


@pytest.mark.parametrize("limit", [0, 2])
async def test_RT1_after_the_last_time_it_is_dead(autojump_clock: MockClock, limit: int) -> None:
    async with world(queues=1) as w:
        got, dead = Recorder(lambda message: ConsumeResult.RETRY), Recorder()
        consumer = w.consumer(consume_from_where=FIRST, max_reconsume_times=limit)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(1)
            await trio.sleep(300)
            assert len(got.messages) == 1 + limit
        undertaker = w.consumer("undertaker", consume_from_where=FIRST)
        undertaker.subscribe("%DLQ%billing", dead)
        async with undertaker:
            await dead.wait_count(1)
            await trio.sleep(60)
            assert [message.body for message in dead.messages] == [b"0"]


async def test_RT1_minus_one_goes_to_the_dead_letters_at_once(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got, dead = Recorder(lambda message: RetryLater(-1)), Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(1)
            await got.wait_count(1)
            await trio.sleep(1)
        undertaker = w.consumer("undertaker", consume_from_where=FIRST)
        undertaker.subscribe("%DLQ%billing", dead)
        async with undertaker:
            await dead.wait_count(1)
            assert len(got.messages) == 1


async def test_RT1_what_waits_for_its_time_comes_after_a_restart_of_the_consumer(autojump_clock: MockClock) -> None:
    async with world() as w:
        got = Recorder(lambda message: ConsumeResult.RETRY if message.reconsume_times == 0 else None)
        for _ in range(2):
            consumer = w.consumer(consume_from_where=FIRST)
            consumer.subscribe("Orders", got)
            async with consumer:
                if not got.messages:
                    sent = await w.send(10)
                    await got.wait_count(10)
                    continue
                await got.wait_count(20)
                await trio.sleep(60)
                assert got.bodies == dict.fromkeys(sent, 2)


@pytest.mark.parametrize("attempts", [0, 1])
async def test_RT1_a_dead_letter_whose_broker_is_away_is_one_on_another(
    autojump_clock: MockClock, attempts: int
) -> None:
    async with world(2, queues=1) as w:
        inside, gone, dead = trio.Event(), trio.Event(), Recorder()
        calls: list[int] = []

        async def listener(message: MessageExt) -> RetryLater | ConsumeResult:
            calls.append(message.reconsume_times)
            if message.reconsume_times < attempts:
                return ConsumeResult.RETRY
            if not inside.is_set():
                inside.set()
                await gone.wait()
            return RetryLater(-1)

        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await w.send(1)
            await inside.wait()
            [away] = {each.broker_name for each, status in consumer.status().queues.items() if status.held_messages}
            numbers = {broker.config.broker_name: number for number, broker in enumerate(w.cluster.brokers)}
            await w.cluster.stop_broker(numbers[away])
            gone.set()
            await trio.sleep(200)
            assert calls == list(range(attempts + 1))
            assert consumer.statistics().sent_as_new == 1
        undertaker = w.consumer("undertaker", consume_from_where=FIRST)
        undertaker.subscribe("%DLQ%billing", dead)
        async with undertaker:
            await dead.wait_count(1)
            assert [message.body for message in dead.messages] == [b"0"]
