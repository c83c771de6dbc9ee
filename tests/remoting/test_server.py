"""The server: accept, bounds, stop."""

from __future__ import annotations

import errno
import logging
import socket
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import ConnectionLostError, TransportError
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.limits import ServerLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.memory_stream import MemoryStream
from rocketpy.remoting.network import Listener, Network, TcpNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.remoting.rounds import RoundShare, Steadily
from rocketpy.remoting.server import serve
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import ECHO, PARK, Peer, connect, is_closed, running_server


async def test_a_taken_port_is_a_clear_typed_error(network: Network) -> None:
    async with running_server(network) as server:
        port = int(server.addresses[0].rpartition(":")[2])
        with pytest.raises(TransportError, match="another process has the port") as caught:
            await serve(network, "127.0.0.1", port, Peer())
        assert caught.value.address == server.addresses[0]
        assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("number", "text"), [(errno.EADDRNOTAVAIL, "no such address"), (errno.EACCES, "privileges"), (errno.EIO, "I/O")]
)
async def test_other_reasons_not_to_listen_are_told_too(number: int, text: str) -> None:
    class Refusing(MemoryNetwork):
        async def listen(self, host: str, port: int) -> list[Listener]:
            raise OSError(number, "I/O")

    with pytest.raises(TransportError, match=text):
        await serve(Refusing(), "127.0.0.1", 80, Peer())


async def test_without_a_host_only_loopback_is_bound() -> None:
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, TcpNetwork(), None, 0, Peer()))
        assert [address.rpartition(":")[0] for address in server.addresses] == ["127.0.0.1"]
        nursery.cancel_scope.cancel()


async def test_connections_are_told_of_when_they_open_and_close(network: Network) -> None:
    opened: list[Connection] = []
    closed: list[Connection] = []
    async with running_server(network, on_open=opened.append, on_close=closed.append) as server:
        stream = await connect(network, server)
        async with open_connection(stream, Peer()) as ours:
            await ours.request(RemotingCommand(ECHO), timeout=5)
            assert len(opened) == len(server.connections) == 1
            assert opened[0].address == ours.local_address
        while server.connections:
            await wait_all_tasks_blocked(0.01)
        assert closed == opened


async def test_connections_over_the_bound_are_refused(memory: MemoryNetwork, caplog: pytest.LogCaptureFixture) -> None:
    async with running_server(memory, limits=ServerLimits(max_connections=2)) as server:
        streams = [await connect(memory, server) for _ in range(5)]
        await wait_all_tasks_blocked()
        assert len(server.connections) == 2
        for stream in streams[2:]:
            assert await is_closed(stream)
        await trio.aclose_forcefully(streams[0])
        await wait_all_tasks_blocked()
        streams.append(await connect(memory, server))
        await wait_all_tasks_blocked()
        assert len(server.connections) == 2
    assert caplog.text.count("refused: 2 connections are open") == 1


async def test_connections_of_one_host_are_bounded(memory: MemoryNetwork, caplog: pytest.LogCaptureFixture) -> None:
    async with running_server(memory, limits=ServerLimits(max_connections_per_host=1)) as server:
        await connect(memory, server)
        assert await is_closed(await connect(memory, server))
        assert len(server.connections) == 1
    assert "127.0.0.1: refused: 1 connections from there are open" in caplog.text


async def test_a_connection_that_is_reset_while_it_is_let_in_does_not_count_for_ever(
    memory: MemoryNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the peer has reset it, the system does not say any more from where it came."""
    asked: list[str] = []

    def address(stream: MemoryStream) -> str:
        asked.append("127.0.0.1:5" if not asked else "")
        return asked[-1]

    async with running_server(memory, limits=ServerLimits(max_connections_per_host=1)) as server:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryStream, "peer_address", property(address, lambda stream, value: None), raising=False)
            stream = await connect(memory, server)
            await wait_all_tasks_blocked()
            assert asked
        await trio.aclose_forcefully(stream)
        await wait_all_tasks_blocked()
        assert not server.connections
        await connect(memory, server)
        await wait_all_tasks_blocked()
        assert len(server.connections) == 1


async def test_those_who_wait_to_be_let_in_come_in_together() -> None:
    """Not one in each round of the loop: who connects without end would keep the others out while rounds are long."""
    async with running_server(TcpNetwork(), share=RoundShare(Steadily())) as server:
        host, _, port = server.addresses[0].rpartition(":")
        sockets = [socket.create_connection((host, int(port))) for _ in range(40)]  # nobody accepts meanwhile
        try:
            for _ in range(4):
                await trio.lowlevel.checkpoint()
            assert len(server.connections) == len(sockets)
        finally:
            for each in sockets:
                each.close()


async def test_those_who_are_let_in_together_keep_to_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    limits = ServerLimits(max_connections_per_host=10)
    async with running_server(TcpNetwork(), limits=limits, share=RoundShare(Steadily())) as server:
        host, _, port = server.addresses[0].rpartition(":")
        sockets = [socket.create_connection((host, int(port))) for _ in range(40)]
        for _ in range(4):
            await trio.lowlevel.checkpoint()
        assert len(server.connections) == 10
        assert [each.recv(1) for each in sockets[10:]] == [b""] * 30
        for each in sockets:
            each.close()


async def test_running_out_of_descriptors_is_borne(clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    class Exhausted(trio.abc.Listener[trio.abc.Stream]):
        def __init__(self, inner: Listener) -> None:
            self.inner, self.failures, self.address = inner, 5, "127.0.0.1:7"

        async def accept(self) -> trio.abc.Stream:
            if self.failures:
                self.failures -= 1
                await trio.lowlevel.checkpoint()
                raise OSError(errno.EMFILE, "too many open files")
            return await self.inner.accept()

        async def aclose(self) -> None:
            await self.inner.aclose()

    class Network(MemoryNetwork):
        async def listen(self, host: str, port: int) -> list[Listener]:
            return [Exhausted((await super().listen(host, 7))[0])]

    memory = Network()
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        begun = trio.current_time()
        connection = await pool.get(server.addresses[0], timeout=5)
        assert (await connection.request(RemotingCommand(ECHO), timeout=5)).code == 0
        assert trio.current_time() - begun == pytest.approx(0.5)
    assert caplog.text.count("too many open files") == 1


async def test_stop_finishes_what_is_in_progress(memory: MemoryNetwork, clock: MockClock) -> None:
    peer = Peer()
    answers: list[str | None] = []
    async with running_server(memory, peer) as server, ConnectionPool(memory).open() as pool:
        connection = await pool.get(server.addresses[0], timeout=5)
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                answers.append((await connection.request(RemotingCommand(PARK), timeout=60)).remark)

            for _ in range(3):
                nursery.start_soon(call)
            await wait_all_tasks_blocked()
            nursery.start_soon(server.stop, 30)
            await trio.sleep(10)
            assert not answers
            peer.answer_parked()
        assert answers == ["late"] * 3
        assert trio.current_time() == 10
        assert not connection.is_open
        assert not server.connections
        with pytest.raises(OSError, match="nobody listens"):
            await connect(memory, server)


async def test_stop_takes_no_new_work_and_ends_with_its_grace(memory: MemoryNetwork, clock: MockClock) -> None:
    peer = Peer()
    async with running_server(memory, peer) as server, ConnectionPool(memory).open() as pool:
        connection = await pool.get(server.addresses[0], timeout=5)
        async with trio.open_nursery() as nursery:

            async def lost(code: int) -> None:
                with pytest.raises(ConnectionLostError):
                    await connection.request(RemotingCommand(code), timeout=60)

            nursery.start_soon(lost, PARK)
            await wait_all_tasks_blocked()
            nursery.start_soon(server.stop, 5)
            await trio.sleep(1)
            nursery.start_soon(lost, ECHO)
        assert trio.current_time() == 5
        assert [request.code for request in peer.seen] == [PARK]


async def test_stop_lets_answers_leave(memory: MemoryNetwork, clock: MockClock) -> None:
    """An answer that the peer is slow to read is still something in progress."""
    async with running_server(memory) as server:
        stream = await connect(memory, server)
        await stream.send_all(encode_command(RemotingCommand(ECHO, body=bytes(900_000))))
        await trio.sleep(1)
        received = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.stop, 20)
            while data := await stream.receive_some(100_000):
                received += len(data)
                await trio.sleep(0.5)
        assert received > 900_000


async def test_a_cancelled_server_leaves_nothing_open(network: Network) -> None:
    async with running_server(network) as server:
        streams = [await connect(network, server) for _ in range(3)]
        while len(server.connections) < 3:
            await wait_all_tasks_blocked(0.01)
    for stream in streams:
        assert await is_closed(stream)
        await trio.aclose_forcefully(stream)
    assert not server.connections
    with pytest.raises(OSError, match=r"connect|nobody"):
        await connect(network, server)


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_a_server_that_is_cancelled_has_stopped_at_once(network: Network) -> None:
    """A stop during a cancellation must not wait for a server that has ended already."""
    begun = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(partial(serve, network, "127.0.0.1", 0, Peer()))
            stream = await connect(network, server)
            try:
                scope.cancel()
                await trio.lowlevel.checkpoint()
            finally:
                with trio.move_on_after(5, shield=True) as limit:
                    await server.stop(5)
                    await stream.aclose()
                assert not limit.cancelled_caught
    assert trio.current_time() - begun < 5
