"""Who sends when: straight writes, coalesced writes, and sockets that are full, reset or half closed."""

from __future__ import annotations

import socket
import struct

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.limits import ConnectionLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import TcpNetwork
from rocketpy.remoting.transport import SocketTransport
from rocketpy.wire.codes import ONEWAY_FLAG, RESPONSE_FLAG, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import ECHO, PARK, SINK, Peer, connection_pair, read_command, stream_pair


class Counting(trio.abc.Stream):
    """Counts the sends that go through it."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self.transport_stream = inner
        self.sends = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.sends += 1
        await self.transport_stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.transport_stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.transport_stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.transport_stream.aclose()


async def test_what_gathers_in_a_tick_leaves_in_one_send(memory: MemoryNetwork) -> None:
    peer = Peer()
    async with stream_pair(memory) as (near, far):
        ours_sent, theirs_sent = Counting(near), Counting(far)
        async with open_connection(theirs_sent, peer), open_connection(ours_sent, Peer()) as ours:
            async with trio.open_nursery() as nursery:
                for _ in range(64):
                    nursery.start_soon(lambda: ours.request(RemotingCommand(ECHO), timeout=5))
            assert ours_sent.sends <= 2
            assert theirs_sent.sends <= 2
            async with trio.open_nursery() as nursery:
                for _ in range(64):
                    nursery.start_soon(lambda: ours.request(RemotingCommand(PARK), timeout=5))
                await wait_all_tasks_blocked()
                before = theirs_sent.sends
                peer.answer_parked()
            assert theirs_sent.sends == before + 1


async def test_a_lone_request_and_its_answer_go_straight_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the writer task for one in flight: neither for the caller nor for the server that answers."""
    woken: list[object] = []
    flush_soon = SocketTransport.flush_soon
    async with connection_pair(TcpNetwork()) as (ours, _):
        await wait_all_tasks_blocked()
        monkeypatch.setattr(SocketTransport, "flush_soon", lambda self: (woken.append(self), flush_soon(self)))
        for _ in range(10):
            await ours.request(RemotingCommand(ECHO), timeout=5)
    assert woken == []


async def test_a_request_after_one_without_an_answer_takes_it_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer task was woken by the first one, and the second one does not wait for it: one send for both."""
    sent: list[bytes] = []
    async with stream_pair(TcpNetwork()) as (near, far), open_connection(near, Peer()) as ours:
        await wait_all_tasks_blocked()
        transport = ours._transport
        assert isinstance(transport, SocketTransport)
        send_some = transport._send_some
        monkeypatch.setattr(transport, "_send_some", lambda: (sent.append(b"".join(transport._chunks)), send_some())[1])
        first, second = (RemotingCommand(SINK, {"n": name}, opaque=ours.next_opaque()) for name in "ab")
        first.flag = ONEWAY_FLAG
        ours.send_frame(encode_command(first))
        assert sent == []
        ours.start_request(second.opaque, encode_command(second), trio.current_time() + 5, lambda _: None)
        assert sent == [encode_command(first) + encode_command(second)]
        await wait_all_tasks_blocked()
        assert len(sent) == 1
        assert await far.receive_some(10_000) == sent[0]
        ours.give_up(second.opaque)


async def test_a_full_socket_takes_the_rest_later() -> None:
    """The writer task waits for the socket; bytes stay in order, also those that come while it waits."""
    async with stream_pair(TcpNetwork()) as (near, far), open_connection(near, Peer()) as ours:
        frames = b""
        for number in range(40):
            command = RemotingCommand.oneway(SINK, {"n": str(number)}, bytes(400_000))
            ours.send_oneway(command)
            frames += encode_command(command)
            await trio.lowlevel.checkpoint()
        assert ours.statistics().pending_bytes > 0
        received = bytearray()
        while len(received) < len(frames):
            received += await far.receive_some(1_000_000)
        assert received == frames
        await ours.wait_writable()
        assert ours.statistics().pending_bytes == 0


async def test_a_reset_connection_fails_those_who_wait_and_those_who_write() -> None:
    async with stream_pair(TcpNetwork()) as (near, far), open_connection(near, Peer()) as ours:
        assert isinstance(far, trio.SocketStream)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(ConnectionLostError, match="may or may not"):
                    await ours.request(RemotingCommand(ECHO), timeout=5)

            nursery.start_soon(ask)
            await read_command(far)
            far.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            far.socket.close()
        assert not ours.is_open


async def test_a_straight_write_into_a_broken_socket_says_that_nothing_was_sent() -> None:
    async with stream_pair(TcpNetwork()) as (near, _), open_connection(near, Peer()) as ours:
        await wait_all_tasks_blocked()
        transport = ours._transport  # the state of the socket cannot be reached from outside before its reader notices
        assert isinstance(transport, SocketTransport)
        transport._socket.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLostError, match="nothing was sent"):
            await ours.request(RemotingCommand(ECHO), timeout=5)
        assert ours.statistics().in_flight == 0


async def test_a_peer_that_closes_its_side_still_gets_its_answers() -> None:
    async with stream_pair(TcpNetwork()) as (near, far), open_connection(far, Peer()):
        assert isinstance(near, trio.SocketStream)
        await near.send_all(encode_command(RemotingCommand(ECHO, body=bytes(3_000_000))))
        await near.send_eof()
        received = 0
        while data := await near.receive_some(100_000):
            received += len(data)
        assert received > 3_000_000


async def test_an_answer_whose_head_is_good_and_whose_rest_is_not_ends_the_connection(memory: MemoryNetwork) -> None:
    async with stream_pair(memory) as (near, far), open_connection(near, Peer()) as ours:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(RemoteProtocolError):
                    await ours.request(RemotingCommand(ECHO), timeout=5)

            nursery.start_soon(ask)
            asked = await read_command(far)
            answer = RemotingCommand(
                0, opaque=asked.opaque, flag=RESPONSE_FLAG, remark="fine", serialize_type=SerializeType.ROCKETMQ
            )
            await far.send_all(encode_command(answer).replace(b"fine", b"\xff\xff\xff\xff"))
        assert isinstance(ours.error, RemoteProtocolError)


async def test_a_request_waits_for_room_and_then_goes_out(memory: MemoryNetwork) -> None:
    async with connection_pair(memory, limits=ConnectionLimits(pending_writes=1000)) as (ours, _):
        (link,) = memory.links()
        link.pause("server")
        for _ in range(5):
            ours.send_oneway(RemotingCommand(SINK, body=bytes(100_000)))
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                assert (await ours.request(RemotingCommand(ECHO, body=b"1"), timeout=50)).body == b"1"

            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert ours.statistics().in_flight == 0
            link.resume()


async def test_a_request_that_waits_for_room_learns_of_the_end(memory: MemoryNetwork) -> None:
    async with connection_pair(memory, limits=ConnectionLimits(pending_writes=1000)) as (ours, _):
        (link,) = memory.links()
        link.pause("server")
        for _ in range(5):
            ours.send_oneway(RemotingCommand(SINK, body=bytes(100_000)))
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(ConnectionLostError, match="nothing was sent"):
                    await ours.request(RemotingCommand(ECHO), timeout=50)

            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            link.cut()


async def test_a_bug_in_the_reader_ends_one_connection_loudly(
    memory: MemoryNetwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with connection_pair(memory) as (ours, _):
        monkeypatch.setattr(Connection, "note_received", lambda *_: 1 / 0)
        with pytest.raises((ConnectionLostError, RequestTimeoutError)):
            await ours.request(RemotingCommand(ECHO), timeout=5)
        assert not ours.is_open
    assert "a bug ended the connection" in caplog.text


@pytest.mark.parametrize("abandoned", [True, False])
async def test_what_a_peer_has_not_read_of_an_abandoned_connection_never_reaches_it(abandoned: bool) -> None:
    network = TcpNetwork()
    [listener] = await network.listen("127.0.0.1", 0)
    host, _, port = listener.address.rpartition(":")
    stream = await network.open_stream(host, int(port))
    peer = await listener.accept()
    async with open_connection(stream, Peer()) as connection:
        connection.send_oneway(RemotingCommand(SINK, body=bytes(16 * 1024)))
        connection.flush()
        await wait_all_tasks_blocked()
        if abandoned:
            connection.abandon(ConnectionLostError("it is silent"))
        else:
            connection.close()
    received = b""
    with trio.fail_after(5):
        try:
            while chunk := await peer.receive_some():
                received += chunk
        except trio.BrokenResourceError:
            assert abandoned
        else:
            assert not abandoned
            assert len(received) > 16 * 1024
    await trio.aclose_forcefully(peer)
    await listener.aclose()
