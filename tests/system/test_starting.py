"""Starts that are cancelled, at each point where that may strike: they end, and can be tried again."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer import PushConsumer
from rocketpy.errors import RequestTimeoutError
from rocketpy.producer import Producer
from tests.system.consuming import Recorder, World, world


def make(kind: type, w: World) -> Any:
    where: dict[str, Any] = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
    if kind is MQClientInstance:
        return MQClientInstance(**where)
    role = kind("billing", **where)
    if kind is PushConsumer:
        role.subscribe("Orders", Recorder())
    return role


@pytest.mark.parametrize("kind", [MQClientInstance, Producer, PushConsumer])
async def test_a_start_that_is_cancelled_ends_and_may_be_tried_again(autojump_clock: MockClock, kind: type) -> None:
    async with world() as w:
        cancelled = 0
        for turns in range(12):
            started, entered = make(kind, w), False
            async with trio.open_nursery() as nursery:

                async def strike(turns: int = turns, scope: trio.CancelScope = nursery.cancel_scope) -> None:
                    for _ in range(turns):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

                if turns:
                    nursery.start_soon(strike)
                else:
                    nursery.cancel_scope.cancel()
                async with started:
                    entered = True
            if not entered:
                cancelled += 1
                async with started:
                    pass
        assert cancelled


async def test_a_missing_topic_is_all_that_is_told_of(autojump_clock: MockClock) -> None:
    """Nobody can create the group's retry topic, which a broker creates that hears of the group."""
    async with world(topics=()) as w:
        consumer = w.consumer()
        consumer.subscribe("Nowhere", lambda message: None)
        async with consumer:
            with pytest.raises(RequestTimeoutError, match="the topic Nowhere does not exist: create it") as caught:
                await consumer.wait_assigned(5)
            assert "%RETRY%" not in str(caught.value)
            assert list(consumer.status().errors) == ["Nowhere"]
