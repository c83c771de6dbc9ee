"""A topic that is deleted and created again while it is consumed: its offsets begin at 0, and nothing new is missed."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.api.admin import delete_topic
from rocketpy.message import Message
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import ResponseCode
from tests.consumer.brokers import world as pulling
from tests.consumer.test_offset_storage import Shelf
from tests.consumer.test_pull import damaged
from tests.system.consuming import Recorder, World, bodies, drain, queues_of, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
OLD, NEW = 10, 25


async def make_again(w: World, after: float) -> None:
    """Delete the topic at its broker, create it again, and send more messages than the old one had."""
    pool = w.producer.client.pool
    await delete_topic(pool, w.cluster.brokers[0].address, "Orders", timeout=3)
    await trio.sleep(after)
    await w.cluster.create_topic("Orders", queues=1)
    await w.send(NEW, start=100)


@pytest.mark.parametrize("after", [0.0, 60.0])
@pytest.mark.parametrize(
    "settings", [{}, {"orderly": True}, {"offset_store": Shelf}], ids=["concurrent", "orderly", "kept store"]
)
async def test_it_is_consumed_from_its_first_message(
    autojump_clock: MockClock, settings: dict[str, Any], after: float
) -> None:
    settings = {name: value() if isinstance(value, type) else value for name, value in settings.items()}
    async with world(queues=1) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, **settings)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(OLD)
            await got.wait_count(OLD)
            await trio.sleep(6)  # it is committed
            await make_again(w, after)
            await got.wait_count(OLD + NEW)
            await trio.sleep(6)
            assert set(got.bodies.values()) == {1}
            (queue,) = queues_of(1)
            store = settings.get("offset_store")
            assert (
                store.offsets[queue] if store else w.cluster.brokers[0].offsets.query("billing", "Orders", 0)
            ) == NEW


async def test_lite_pull_hands_out_all_of_it(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w, w.lite(consume_from_where=FIRST) as consumer:
        consumer.subscribe("Orders")
        await w.send(OLD)
        await drain(consumer, OLD)
        await make_again(w, 0.0)
        got = bodies(await drain(consumer, NEW))
        assert got == {b"%d" % number: 1 for number in range(100, 100 + NEW)}


async def test_its_messages_are_no_copies_of_old_ones(autojump_clock: MockClock) -> None:
    async with world(queues=1) as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, dedupe="key")
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.producer.send(Message("Orders", b"old", keys=["42"]))
            await got.wait_count(1)
            await make_again(w, 0.0)
            await w.producer.send(Message("Orders", b"new", keys=["42"]))
            await got.wait_count(NEW + 2)


@pytest.mark.parametrize("gone", [1, 3])
async def test_a_broker_that_still_has_the_topic_goes_on_where_the_group_stands(
    autojump_clock: MockClock, gone: int
) -> None:
    async with pulling() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            w.broker.store(OLD)
            await got.wait_count(OLD)
            await trio.sleep(6)
            w.broker.script = [ResponseCode.TOPIC_NOT_EXIST] * gone
            w.broker.answer_parked(ResponseCode.PULL_NOT_FOUND, OLD)
            await trio.sleep(20)
            w.broker.store(2)
            await got.wait_count(OLD + 2)
            await trio.sleep(6)
            assert [message.queue_offset for message in got.messages] == list(range(OLD + 2))
            assert w.broker.offsets["Orders", 0] == OLD + 2


async def test_a_damaged_message_in_it_does_not_bring_back_those_before(autojump_clock: MockClock) -> None:
    async with pulling() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            w.broker.script = [ResponseCode.TOPIC_NOT_EXIST]
            w.broker.answer_parked(ResponseCode.PULL_NOT_FOUND, 0)
            w.broker.store(3)
            w.broker.logs["Orders", 0].records[2] = damaged(2)
            await trio.sleep(60)
            assert sorted(message.queue_offset for message in got.messages) == [0, 1]
            assert w.broker.pulled()[-1] == 2


async def test_nothing_of_it_is_committed_while_it_is_gone(autojump_clock: MockClock) -> None:
    async with pulling() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", got)
        async with consumer:
            w.broker.store(OLD)
            await got.wait_count(OLD)
            w.broker.script = [ResponseCode.TOPIC_NOT_EXIST] * 5
            w.broker.offsets.clear()
            w.broker.answer_parked(ResponseCode.PULL_NOT_FOUND, OLD)
            await trio.sleep(12)
            assert ("Orders", 0) not in w.broker.offsets


async def test_a_store_learns_that_it_is_gone(autojump_clock: MockClock) -> None:
    store = Shelf()
    async with pulling() as w:
        got = Recorder()
        consumer = w.consumer(consume_from_where=FIRST, offset_store=store)
        consumer.subscribe("Orders", got)
        async with consumer:
            w.broker.store(OLD)
            await got.wait_count(OLD)
            await trio.sleep(6)
            w.broker.script = [ResponseCode.TOPIC_NOT_EXIST] * 5
            w.broker.answer_parked(ResponseCode.PULL_NOT_FOUND, OLD)
            await trio.sleep(6)
        assert store.offsets[queues_of(1)[0]] == 0  # or a consumer that starts later would pass over its messages
