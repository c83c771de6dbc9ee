"""Tests of the trio service: everything in one loop, and minutes that take no time."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from examples.testing.shop_trio import order, reminders
from rocketpy import Message, Producer
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy_broker_sim import LocalCluster

pytestmark = pytest.mark.rocketmq(topics=["Reminders"])


def settings_for(cluster: LocalCluster) -> dict[str, Any]:
    return {"namesrv": cluster.name_server_addresses, "network": cluster.network}


async def test_a_reminder_comes_after_ten_minutes(rocketmq_trio: LocalCluster) -> None:
    settings, began, reminded = settings_for(rocketmq_trio), trio.current_time(), []

    async def remind(number: int) -> None:
        reminded.append((number, round(trio.current_time() - began)))

    async with reminders(remind, **settings), Producer("shop", **settings) as producer:
        await order(producer, 42)
        await rocketmq_trio.wait_consumed("reminders", "Reminders", timeout=3600)
    assert reminded == [(42, 600)]


async def test_three_more_tries_in_less_than_two_minutes(rocketmq_trio: LocalCluster) -> None:
    began, tries = trio.current_time(), []

    async def remind(number: int) -> None:
        tries.append(round(trio.current_time() - began))
        raise ConnectionError("the mail server is away")

    async with reminders(remind, max_reconsume_times=3, **settings_for(rocketmq_trio)):
        await rocketmq_trio.send(Message("Reminders", b"42"))
        [message] = await rocketmq_trio.wait_dead_letters("reminders", timeout=3600)
    assert message.body == b"42"
    assert tries == [0, 10, 40, 100]


async def test_a_broker_that_restarts(rocketmq_trio: LocalCluster) -> None:
    settings, reminded = settings_for(rocketmq_trio), []

    async def remind(number: int) -> None:
        reminded.append(number)

    async with reminders(remind, **settings), Producer("shop", **settings) as producer:
        await order(producer, 42)
        await rocketmq_trio.restart_broker(0)
        await rocketmq_trio.wait_consumed("reminders", "Reminders", timeout=3600)
    assert reminded == [42]


async def test_links_that_break(rocketmq_trio: LocalCluster) -> None:
    settings, reminded = settings_for(rocketmq_trio), []

    async def remind(number: int) -> None:
        reminded.append(number)

    async with reminders(remind, **settings), Producer("shop", **settings) as producer:
        await order(producer, 42)
        assert isinstance(rocketmq_trio.network, MemoryNetwork)
        rocketmq_trio.network.cut()  # every connection there is
        await rocketmq_trio.wait_consumed("reminders", "Reminders", timeout=3600)
    assert reminded == [42]
