"""One world for each test: a name server, brokers on demand, a producer on demand."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from rocketpy.producer import Producer
from tests.producer.brokers import SendBroker, World


@pytest.fixture
def opened():
    """Opens a world: `async with opened(SendBroker(), ...) as (producer, world):`; topic T lives on all brokers."""

    @asynccontextmanager
    async def open_world(*brokers, topic="T", write=4, enter=True, **settings):
        world = World()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(world.name_server.open(world.network, 9876))
            for broker in brokers or (SendBroker(),):
                await stack.enter_async_context(broker.open(world.network))
            world.route(topic, *brokers, write=write)
            producer = Producer("pg", network=world.network, **({"namesrv": "ns:9876"} | settings))
            if enter:
                await stack.enter_async_context(producer)
            yield producer, world

    return open_world
