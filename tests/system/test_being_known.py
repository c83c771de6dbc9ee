"""Brokers know who is there: they share out the queues of members that they do not know."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.api import group as group_api
from rocketpy.client.heartbeat import Heartbeats
from rocketpy.consumer.push import PushConsumer
from rocketpy.wire.java_hash import string_hash
from tests.system.consuming import Recorder, World, wait_until, world


def member(w: World, group: str = "billing") -> PushConsumer:
    consumer = w.consumer(group)
    consumer.subscribe("Orders", Recorder())
    return consumer


def known(w: World, broker: int) -> set[str]:
    return {channel.client_id for channel in w.cluster.brokers[broker].clients.consumers.clients("billing")}


async def test_a_member_whose_connection_breaks_is_back_at_once(autojump_clock: MockClock) -> None:
    async with world(brokers=1) as w, member(w) as consumer:
        await w.cluster.cut_connections(0)
        assert known(w, 0) == set()
        # A pull would come back after three seconds, a heartbeat after thirty.
        await wait_until(lambda: known(w, 0) == {consumer.client.client_id}, within=1.5)


async def test_a_client_without_consumers_waits_for_the_next_send(autojump_clock: MockClock) -> None:
    async with world(brokers=1) as w:
        await w.send(1)
        await w.cluster.cut_connections(0)
        await trio.sleep(20)
        assert w.cluster.network.links(w.cluster.brokers[0].address) == []


async def test_a_broker_that_is_back_hears_of_members_that_have_no_queue_of_it(autojump_clock: MockClock) -> None:
    async with world(brokers=2, queues=1) as w, AsyncExitStack() as stack:
        members = [await stack.enter_async_context(member(w)) for _ in range(3)]
        ids = {each.client.client_id for each in members}
        await wait_until(lambda: known(w, 1) == ids)
        await w.cluster.stop_broker(1)
        await trio.sleep(10)
        await w.cluster.start_broker(1)
        await wait_until(lambda: known(w, 1) == ids, within=6)


async def test_a_broker_that_is_away_costs_the_others_no_heartbeats(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    send = Heartbeats._send

    async def noted(heartbeats: Heartbeats, broker_name: str, address: str, answered: list[str]) -> None:
        asked.append(address)
        await send(heartbeats, broker_name, address, answered)

    async with world(brokers=2, queues=1) as w, member(w):
        up, down = (broker.address for broker in w.cluster.brokers)
        await w.cluster.kill_broker(1)
        await trio.sleep(1)
        monkeypatch.setattr(Heartbeats, "_send", noted)
        await trio.sleep(20)
        assert asked.count(up) <= 1
        assert 3 <= asked.count(down) <= 8


@pytest.mark.slow
async def test_all_members_of_a_group_ask_the_same_broker_for_the_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, set[str]] = {}
    consumer_list = group_api.consumer_list

    async def noted(pool: object, address: str, group: str, **named: object) -> list[str]:
        asked.setdefault(group, set()).add(address)
        return await consumer_list(pool, address, group, **named)  # type: ignore[arg-type]

    groups = [next(f"g{n}" for n in range(9) if string_hash(f"g{n}") % 2 == rest) for rest in (0, 1)]
    async with world(brokers=2) as w, AsyncExitStack() as stack:
        for group in groups:
            for _ in range(3):
                await stack.enter_async_context(member(w, group))
        monkeypatch.setattr(group_api, "consumer_list", noted)
        await trio.sleep(100)
        first, second = (broker.address for broker in w.cluster.brokers)
        assert asked == {groups[0]: {first}, groups[1]: {second}}
