"""A cluster for the tests of the asyncio surface, and a world of fakes that live in the portal."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager

import pytest

from rocketpy.portal import Opened, portal
from tests.producer.brokers import SendBroker, World
from tests.sync.conftest import cluster, namesrv, topic

__all__ = ["cluster", "namesrv", "topic"]


@pytest.fixture
def fakes():
    """Fake brokers with topic T: `with fakes(SendBroker()) as settings: Producer("pg", **settings)`."""

    @contextmanager
    def open_fakes(*brokers, topic="T"):
        world = World()
        brokers = brokers or (SendBroker(),)
        opened = Opened(portal(), _served(world, brokers, topic)).open()
        try:
            yield {"network": world.network, "namesrv": "ns:9876"}
        finally:
            opened.close()

    return open_fakes


class Hole:
    """A server that accepts, and never answers."""

    def __init__(self, server, stack):
        self.address = f"127.0.0.1:{server.getsockname()[1]}"
        self._server, self._stack = server, stack

    def wait_asked(self):
        """Wait until somebody has connected and asked something; it blocks."""
        asked, _ = self._server.accept()
        assert self._stack.enter_context(asked).recv(1)


@pytest.fixture
def hole():
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(20)
        yield Hole(server, stack)


@asynccontextmanager
async def _served(world, brokers, topic):
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.name_server.open(world.network, 9876))
        for broker in brokers:
            await stack.enter_async_context(broker.open(world.network))
        world.route(topic, *brokers)
        yield
