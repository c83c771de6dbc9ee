"""Brokers hear of a subscription before they get a pull for it, whatever changes while they are told of others."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt
from rocketpy.remoting.connection import Connection
from rocketpy.wire.bodies.heartbeat import HeartbeatData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from tests.consumer.brokers import world
from tests.system.consuming import wait_until


def nothing(message: MessageExt) -> None:
    pass


def topics_in(request: RemotingCommand) -> set[str]:
    groups = HeartbeatData.decode(request.body).consumer_data_set
    return {data.topic for group in groups for data in group.subscription_data_set}


async def test_a_topic_that_is_subscribed_while_brokers_are_told_of_others(autojump_clock: MockClock) -> None:
    async with world("broker-a", topics=("Orders", "Bills", "Later")) as w:
        consumer, told, too_early = w.consumer(), set[str](), list[str]()
        consumer.subscribe("Orders", nothing)

        def heartbeat(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            told.clear()  # as brokers do: what the last one says holds
            told.update(topics_in(request))
            if "Bills" in told:
                consumer.subscribe("Later", nothing)
            return w.broker.heartbeat(connection, request)

        def pull(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
            topic = PullMessageRequestHeader.from_ext(request.ext_fields).topic
            if topic not in told:
                too_early.append(topic)
                return request.answer(ResponseCode.SUBSCRIPTION_NOT_EXIST, "not heard of")
            return w.broker.pull(connection, request)

        w.broker.on(RequestCode.HEART_BEAT, heartbeat)
        w.broker.on(RequestCode.PULL_MESSAGE, pull)
        async with consumer:
            assert await consumer.wait_assigned(5)
            consumer.subscribe("Bills", nothing)
            await wait_until(lambda: w.broker.pulled("Later"))
        assert too_early == []
        assert trio.current_time() < 5


async def test_heartbeats_that_wait_for_one_connection_say_what_holds_when_it_is_there(
    autojump_clock: MockClock,
) -> None:
    """They go on in any order, so that an older one may be the last."""
    async with world("broker-a") as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        said: list[set[str]] = []

        def heartbeat(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            said.append(topics_in(request))
            return w.broker.heartbeat(connection, request)

        async with consumer:
            assert await consumer.wait_assigned(5)
            w.broker.on(RequestCode.HEART_BEAT, heartbeat)
            pool, heartbeats = consumer.client.pool, consumer.client.heartbeats
            dialled, get = trio.Event(), pool.get

            async def slow(address: str, *, timeout: float) -> object:
                await dialled.wait()
                return await get(address, timeout=timeout)

            pool.get = slow
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(heartbeats.send_all)
                    await trio.sleep(0.1)
                    consumer.subscribe("Later", nothing)
                    nursery.start_soon(heartbeats.send_all)
                    await trio.sleep(0.1)
                    dialled.set()
            finally:
                pool.get = get
        assert len(said) >= 2
        assert all("Later" in topics for topics in said)


async def test_to_connect_and_to_be_answered_have_one_deadline(autojump_clock: MockClock) -> None:
    async with world("broker-a") as w:
        consumer = w.consumer(request_timeout=3.0)
        consumer.subscribe("Orders", nothing)
        async with consumer:
            assert await consumer.wait_assigned(5)
            pool, get = consumer.client.pool, consumer.client.pool.get

            async def slow(address: str, *, timeout: float) -> object:
                await trio.sleep(2.0)
                return await get(address, timeout=timeout)

            pool.get, w.broker.hangs = slow, True
            try:
                began = trio.current_time()
                assert await consumer.client.heartbeats.send_all() == 0
                assert 2.9 <= trio.current_time() - began <= 3.1
            finally:
                pool.get, w.broker.hangs = get, False
