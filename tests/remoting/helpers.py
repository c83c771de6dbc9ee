"""What the tests of remoting share: echo servers, pairs of connections in both forms, frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.dispatch import Processor, RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network, TcpNetwork, address_of_listener
from rocketpy.remoting.server import RemotingServer, serve
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.hosts import parse_address
from rocketpy.wire.serialize import decode_command

ECHO, PARK, CRASH, SINK = 7001, 7002, 7003, 7004

NETWORKS: dict[str, Callable[[], Network]] = {"socket": TcpNetwork, "stream": MemoryNetwork}


def echo(_: Connection, request: RemotingCommand) -> RemotingCommand:
    return request.answer(0, None, dict(request.ext_fields), request.body)


def crash(_: Connection, request: RemotingCommand) -> RemotingCommand:
    raise RuntimeError("secret path /etc/shadow")


class Peer:
    """A handler that keeps what it saw, and parks PARK requests until it is told."""

    def __init__(self, more: dict[int, Processor] | None = None) -> None:
        self.parked: list[tuple[Connection, RemotingCommand]] = []
        self.seen: list[RemotingCommand] = []
        self.turns: list[int] = []
        self.dispatcher = RequestDispatcher(
            {ECHO: echo, PARK: self.park, CRASH: crash, SINK: self.sink, **(more or {})}
        )

    def park(self, connection: Connection, request: RemotingCommand) -> None:
        self.parked.append((connection, request))

    def sink(self, _: Connection, request: RemotingCommand) -> None:
        assert request.is_oneway

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        self.seen += requests
        self.turns.append(len(requests))
        return self.dispatcher.handle(connection, requests, arrived)

    def answer_parked(self) -> None:
        parked, self.parked = self.parked, []
        for connection, request in parked:
            connection.send_answer(request, request.answer(0, "late"))


@asynccontextmanager
async def stream_pair(network: Network) -> AsyncIterator[tuple[trio.abc.Stream, trio.abc.Stream]]:
    (listener,) = await network.listen("127.0.0.1", 0)
    host, port = parse_address(address_of_listener(listener))
    client = await network.open_stream(host, port)
    server = await listener.accept()
    await listener.aclose()
    try:
        yield client, server
    finally:
        await trio.aclose_forcefully(client)
        await trio.aclose_forcefully(server)


@asynccontextmanager
async def connection_pair(
    network: Network, server: Any = None, client: Any = None, **options: Any
) -> AsyncIterator[tuple[Connection, Connection]]:
    """A client's and a server's connection with each other."""
    async with stream_pair(network) as (near, far):
        async with open_connection(far, server or Peer()) as theirs:
            async with open_connection(near, client or Peer(), **options) as ours:
                yield ours, theirs


@asynccontextmanager
async def running_server(network: Network, handler: Any = None, **options: Any) -> AsyncIterator[RemotingServer]:
    """A server on a free port, cancelled at the end."""
    async with trio.open_nursery() as nursery:
        server: RemotingServer = await nursery.start(
            partial(serve, network, "127.0.0.1", 0, handler or Peer(), **options)
        )
        yield server
        nursery.cancel_scope.cancel()


async def connect(network: Network, server: RemotingServer) -> trio.abc.Stream:
    return await network.open_stream(*parse_address(server.addresses[0]))


async def read_command(stream: trio.abc.Stream, decoder: FrameDecoder | None = None) -> RemotingCommand:
    """The next command on a bare stream."""
    decoder = decoder or FrameDecoder()
    while True:
        frames = decoder.frames(1)
        if frames:
            return decode_command(frames[0])
        data = await stream.receive_some(65536)
        assert data, "the peer closed instead of answering"
        decoder.receive_data(bytes(data))


async def is_closed(stream: trio.abc.Stream) -> bool:
    """Read until the peer closes; False when it sends something instead."""
    try:
        return not await stream.receive_some(65536)
    except trio.BrokenResourceError:
        return True
