"""A push consumer and a whole cluster, in one loop and in virtual time."""

from __future__ import annotations

import gc

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import ClientClosedError, ConfigError, NameServerUnreachableError, RequestTimeoutError
from rocketpy.message import Message, MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import Recorder, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def test_PC1_entering_returns_with_the_queues_assigned(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer, got = w.consumer(), Recorder()
        consumer.subscribe("Orders", got)
        async with consumer:
            assert consumer.assignment == tuple(MessageQueue("Orders", "broker-a", number) for number in range(4))
            assert await consumer.wait_assigned(0) == consumer.assignment
            sent = await w.send(100)
            await got.wait_count(100)
            assert got.bodies == dict.fromkeys(sent, 1)
            await wait_until(lambda: consumer.statistics().consumed == 100)
            assert consumer.status().queues[consumer.assignment[0]].commit_offset == 25
        assert consumer.status().state == "closed"


async def test_PC1_nothing_of_a_failed_start_is_left(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer(namesrv="127.0.0.1:1")
        consumer.subscribe("Orders", Recorder())
        with pytest.raises(NameServerUnreachableError):
            async with consumer:
                raise AssertionError("nobody gets here")
        assert consumer.status().state == "not started"
        assert not consumer.client.is_open
        tasks = trio.lowlevel.current_statistics().tasks_living
        with pytest.raises(NameServerUnreachableError):
            await consumer.__aenter__()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_PC1_a_second_start_says_so(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer()
        async with consumer:
            with pytest.raises(ClientClosedError, match="was started already"):
                await consumer.__aenter__()
            with pytest.raises(ClientClosedError, match="was started already"):
                async with consumer:
                    raise AssertionError("nobody gets here")
            assert consumer.status().state == "open"
        with pytest.raises(ClientClosedError, match="cannot be started again"):
            await consumer.__aenter__()


async def test_PC1_one_consumer_of_a_group_for_each_client(autojump_clock: MockClock) -> None:
    async with world() as w:
        async with w.consumer() as first:
            second = w.consumer(namesrv=(), network=None, client=first.client)
            with pytest.raises(ConfigError, match="has a consumer of the group 'billing' already"):
                await second.__aenter__()
            third, got = w.consumer("audit", namesrv=(), network=None, client=first.client), Recorder()
            third.subscribe("Orders", got)
            async with third:
                await w.send(5)
                await got.wait_count(5)


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_one_that_is_refused_leaves_the_other_of_its_group_alone(autojump_clock: MockClock, kind: str) -> None:
    async with world() as w:
        first, got = w.consumer(), Recorder()
        first.subscribe("Orders", got)
        async with first:
            role = first.client.roles.consumers["billing"]
            make = w.consumer if kind == "push" else w.lite
            second = make(namesrv=(), network=None, client=first.client)
            for _ in range(2):
                with pytest.raises(ConfigError, match="has a consumer of the group 'billing' already"):
                    await second.__aenter__()
                assert first.client.roles.consumers["billing"] is role
            await trio.sleep(60)
            sent = await w.send(8)
            await got.wait_count(8)
            assert got.bodies == dict.fromkeys(sent, 1)


async def test_topics_may_be_subscribed_and_given_up_while_it_runs(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        orders, bills = Recorder(), Recorder()
        async with w.consumer(consume_from_where=FIRST) as consumer:
            with pytest.raises(RequestTimeoutError, match="nothing is subscribed"):
                await consumer.wait_assigned(5)
            consumer.subscribe("Orders", orders)
            await consumer.wait_assigned(10)
            await w.send(8)
            await orders.wait_count(8)
            consumer.subscribe("Bills", bills)
            consumer.unsubscribe("Orders")
            await wait_until(lambda: {queue.topic for queue in consumer.assignment} == {"Bills"})
            await w.send(4, topic="Bills")
            await w.send(4)
            await bills.wait_count(4)
            await trio.sleep(30)
            assert len(orders.messages) == 8
            with pytest.raises(ConfigError, match="'Orders' is not subscribed"):
                consumer.unsubscribe("Orders")


async def test_a_topic_that_does_not_exist_yet_is_waited_for(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer, got = w.consumer(), Recorder()
        consumer.subscribe("Later", got)
        async with consumer:
            assert consumer.assignment == ()
            with pytest.raises(RequestTimeoutError, match="the topic Later does not exist"):
                await consumer.wait_assigned(5)
            await w.producer.send(Message("Later", b"first"))
            await consumer.wait_assigned(60)
            await got.wait_count(1)


async def test_OF3_stop_and_resume_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    async with world() as w:
        sent = []
        received = Recorder()
        for turn in range(4):
            consumer = w.consumer()
            consumer.subscribe("Orders", received)
            async with consumer:
                sent += await w.send(40, start=100 * turn)
                await received.wait_count(40 * turn + 30)
            # What is sent while nobody listens waits.
            sent += await w.send(10, start=100 * turn + 50)
        async with w.consumer() as last:
            last.subscribe("Orders", received)
            await received.wait_count(len(sent))
            await trio.sleep(30)
        assert received.bodies == dict.fromkeys(sent, 1)


@pytest.mark.slow
async def test_everything_that_it_began_ends_with_it(autojump_clock: MockClock) -> None:
    async with world() as w:
        await trio.sleep(1)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for _ in range(3):
            consumer, got = w.consumer(), Recorder()
            consumer.subscribe("Orders", got)
            async with consumer:
                await w.send(3)
                await got.wait_count(3)
        await trio.sleep(1)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        gc.collect()
