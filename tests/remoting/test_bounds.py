"""What a hostile, slow or silent peer meets."""

from __future__ import annotations

import logging

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError
from rocketpy.remoting import inbound
from rocketpy.remoting.connection import Connection, open_connection
from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.services import ticks
from rocketpy.wire.codes import RESPONSE_FLAG
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.serialize import encode_command
from tests.garbage import garbage
from tests.remoting.helpers import (
    ECHO,
    PARK,
    Peer,
    connect,
    is_closed,
    read_command,
    running_server,
    stream_pair,
)

FRAME = encode_command(RemotingCommand(ECHO, body=b"x" * 100))


# --- what stays ----------------------------------------------------------------------------------------


async def test_a_closed_connection_leaves_no_frames_of_code_behind(memory: MemoryNetwork, clock: MockClock) -> None:
    """They would hold what was read last, with bodies of up to 16 MiB, until the next collection of garbage."""
    with garbage() as found:
        async with running_server(memory) as server:
            for last in (b"", b"\xff" * 16):
                stream = await connect(memory, server)
                await stream.send_all(FRAME + last)
                assert (await read_command(stream)).code == 0
                await stream.aclose()
            await wait_all_tasks_blocked()
            assert not server.connections
            assert found("frame", "traceback") == 0


async def test_a_closed_connection_keeps_nothing_of_a_frame_that_had_begun(
    memory: MemoryNetwork, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that begin a frame of 16 MiB and close would fill the memory long before garbage is collected."""
    made: list[FrameDecoder] = []

    class Noted(FrameDecoder):
        def __init__(self, limits: WireLimits) -> None:
            super().__init__(limits)
            made.append(self)

    monkeypatch.setattr(inbound, "FrameDecoder", Noted)
    announced = (10_000_000).to_bytes(4, "big") + (100).to_bytes(4, "big")
    async with running_server(memory) as server:
        for _ in range(3):
            stream = await connect(memory, server)
            await stream.send_all(announced + bytes(100_000))
            await wait_all_tasks_blocked()
            assert made[-1].buffered == 100_008
            await stream.aclose()
            await wait_all_tasks_blocked()
        assert not server.connections
        assert [decoder.buffered for decoder in made] == [0, 0, 0]


async def test_a_closed_connection_keeps_no_answers_that_nobody_read(memory: MemoryNetwork, clock: MockClock) -> None:
    seen: list[Connection] = []
    async with running_server(memory, on_open=seen.append) as server:
        stream = await connect(memory, server)
        await stream.send_all(FRAME)
        await read_command(stream)
        transport = seen[0]._transport
        transport.append(bytes(100_000))
        seen[0].close()
        await wait_all_tasks_blocked()
        assert not transport._chunks


# --- frames --------------------------------------------------------------------------------------------


async def test_threat_F3_a_frame_that_never_ends_is_given_30_seconds(memory: MemoryNetwork, clock: MockClock) -> None:
    async with running_server(memory) as server:
        slow, good = await connect(memory, server), await connect(memory, server)
        await slow.send_all(FRAME + FRAME[:20])
        assert (await read_command(slow)).code == 0
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                """One byte every two seconds: the timer is the frame's, not that of the last byte."""
                for at in range(20, len(FRAME)):
                    await trio.sleep(2)
                    try:
                        await slow.send_all(FRAME[at : at + 1])
                    except trio.BrokenResourceError:
                        return

            nursery.start_soon(trickle)
            assert await is_closed(slow)
        assert trio.current_time() == pytest.approx(30, abs=2.1)
        await good.send_all(FRAME)
        assert (await read_command(good)).code == 0


async def test_threat_F3_slow_whole_frames_are_no_offence(memory: MemoryNetwork, clock: MockClock) -> None:
    async with running_server(memory) as server:
        stream = await connect(memory, server)
        for _ in range(10):
            await stream.send_all(FRAME[:30])
            await trio.sleep(25)
            await stream.send_all(FRAME[30:])
            assert (await read_command(stream)).code == 0


async def test_threat_F3_begun_frames_have_a_budget_over_all_connections(
    memory: MemoryNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    """An announced length allocates nothing; received bytes are counted, and the peer with the most is closed."""
    announced = (10_000_000).to_bytes(4, "big") + (100).to_bytes(4, "big")
    async with running_server(memory, limits=ServerLimits(max_kept=500_000)) as server:
        small, large, good = [await connect(memory, server) for _ in range(3)]
        await small.send_all(announced + bytes(100_000))
        await large.send_all(announced + bytes(300_000))
        await wait_all_tasks_blocked()
        assert server.budget.kept == 400_016
        await small.send_all(bytes(110_000))
        assert await is_closed(large)
        assert server.budget.kept == 210_008
        await good.send_all(FRAME)
        assert (await read_command(good)).code == 0
        assert len(server.connections) == 2
        await small.aclose()
        await wait_all_tasks_blocked()
        assert server.budget.kept == 0
    assert caplog.text.count("the one that keeps most") == 1


async def test_half_a_frame_then_close(network: Network) -> None:
    peer = Peer()
    async with stream_pair(network) as (near, far), open_connection(far, peer) as theirs:
        await near.send_all(FRAME + FRAME[:37])
        await read_command(near)
        await near.aclose()
        while theirs.is_open:
            await wait_all_tasks_blocked(0.01)
        assert "within a frame, after 37 bytes" in str(theirs.error)
        assert len(peer.seen) == 1


async def test_a_bad_frame_ends_the_connection_after_what_came_before_it(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(network) as server:
        stream = await connect(network, server)
        await stream.send_all(FRAME + b"GET / HTTP/1.1\r\n\r\n")
        assert (await read_command(stream)).body == b"x" * 100
        assert await is_closed(stream)
        await stream.aclose()
    assert caplog.text.count("speaks HTTP") == 1


async def test_bad_peers_are_logged_once_in_a_while_and_escaped(
    memory: MemoryNetwork, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    bad = encode_command(RemotingCommand(ECHO)).replace(b'"opaque":0', b'"opaque":[]')
    async with running_server(memory) as server:
        for _ in range(50):
            stream = await connect(memory, server)
            await stream.send_all(bad)
            assert await is_closed(stream)
        await trio.sleep(61)
        stream = await connect(memory, server)
        await stream.send_all(bad)
        assert await is_closed(stream)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 3
    assert lines[1] == "not logged: 49 more lines about peers"


async def test_threat_F20_bytes_one_at_a_time(memory: MemoryNetwork) -> None:
    async with stream_pair(memory) as (near, far), open_connection(far, Peer()):
        for at in range(len(FRAME)):
            await near.send_all(FRAME[at : at + 1])
        assert (await read_command(near)).body == b"x" * 100


async def test_threat_F20_a_thousand_frames_in_one_segment_leave_others_their_turn(memory: MemoryNetwork) -> None:
    greedy, modest = Peer(), Peer()
    order: list[str] = []
    greedy.dispatcher.processors[ECHO] = lambda _, request: order.append("greedy") or request.answer(0)
    modest.dispatcher.processors[ECHO] = lambda _, request: order.append("modest") or request.answer(0)
    async with stream_pair(memory) as (near1, far1), stream_pair(memory) as (near2, far2):
        async with open_connection(far1, greedy), open_connection(far2, modest):
            await near1.send_all(FRAME * 1000)
            await near2.send_all(FRAME)
            await wait_all_tasks_blocked()
    assert len(greedy.seen) == 1000
    assert max(greedy.turns) == 64
    assert order.index("modest") <= 64 * 8


# --- answers -------------------------------------------------------------------------------------------


async def test_threat_F15_answers_that_nobody_asked_for_are_dropped(memory: MemoryNetwork) -> None:
    """Unasked, twice, and on another connection: none completes a request that it does not belong to."""
    async with stream_pair(memory) as (a, a_server), stream_pair(memory) as (b, b_server):
        async with open_connection(a, Peer()) as first, open_connection(b, Peer()) as second:
            unasked = encode_command(RemotingCommand(0, opaque=77, flag=RESPONSE_FLAG))
            await a_server.send_all(unasked)
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    answer = await first.request(RemotingCommand(ECHO), timeout=5)
                    assert answer.remark == "true one"

                nursery.start_soon(ask)
                asked = await read_command(a_server)
                # The same opaque is waited for on the first connection only.
                await b_server.send_all(
                    encode_command(RemotingCommand(0, opaque=asked.opaque, flag=RESPONSE_FLAG, remark="forged"))
                )
                await wait_all_tasks_blocked()
                assert first.statistics().in_flight == 1
                assert second.statistics().unknown_answers == 1
                true = encode_command(asked.answer(0, "true one"))
                await a_server.send_all(true + true)
            await wait_all_tasks_blocked()
            assert first.statistics().unknown_answers == 2
            assert first.is_open
            assert second.is_open


async def test_an_answer_with_a_broken_header_ends_the_connection(memory: MemoryNetwork) -> None:
    async with stream_pair(memory) as (near, far), open_connection(near, Peer()) as ours:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises((RemoteProtocolError, ConnectionLostError)):
                    await ours.request(RemotingCommand(ECHO), timeout=5)

            nursery.start_soon(ask)
            asked = await read_command(far)
            good = encode_command(asked.answer(0, "fine"))
            await far.send_all(good.replace(b'"remark":"fine"', b'"remark":"fi\xff\xfe"'))
        assert isinstance(ours.error, RemoteProtocolError)


# --- room ----------------------------------------------------------------------------------------------


async def test_threat_L2_a_slow_reader_is_bounded_and_others_are_unharmed(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    peer = Peer()
    async with running_server(memory, peer) as server, ConnectionPool(memory).open() as pool:
        slow = await connect(memory, server)
        request = encode_command(RemotingCommand(ECHO, body=bytes(200_000)))
        async with trio.open_nursery() as nursery:

            async def ask_without_reading() -> None:
                with pytest.raises(trio.BrokenResourceError):
                    await slow.send_all(request * 1000)

            nursery.start_soon(ask_without_reading)
            good = await pool.get(server.addresses[0], timeout=5)
            for _ in range(100):
                begun = trio.current_time()
                assert (await good.request(RemotingCommand(ECHO, body=b"1"), timeout=5)).body == b"1"
                assert trio.current_time() == begun
                await trio.sleep(0.1)
            (theirs,) = [one for one in server.connections if one.address != good.local_address]
            # 64 KiB and one answer wait; what else was answered fits into the stream's own buffer.
            assert theirs.statistics().pending_bytes <= 64 * 1024 + 2 * 201_000
            served = theirs.statistics().received_requests
            await trio.sleep(60)
            assert theirs.statistics().received_requests == served
            assert theirs.statistics().unparsed_bytes < 2 * 1024 * 1024
            # It neither reads nor writes, so it ends as an idle connection does.
            await trio.sleep(100)
            assert not theirs.is_open
            # Who reads its answers is served to the end.
            good = await pool.get(server.addresses[0], timeout=5)
            assert (await good.request(RemotingCommand(ECHO, body=b"2"), timeout=5)).body == b"2"


async def test_threat_L2_a_reader_that_goes_on_gets_everything(memory: MemoryNetwork, clock: MockClock) -> None:
    async with stream_pair(memory) as (near, far):
        async with open_connection(far, Peer(), limits=ConnectionLimits(idle_timeout=None)) as theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(near.send_all, FRAME[:-100] + bytes(100) + FRAME * 5000)
                await trio.sleep(1000)
                received = 0
                while received < 5001 * len(encode_command(RemotingCommand(ECHO).answer(0, body=bytes(100)))):
                    received += len(await near.receive_some(10_000))
                    assert theirs.statistics().pending_bytes < 100_000
            assert theirs.statistics().received_requests == 5001


async def test_a_turn_with_large_answers_stops_where_the_peer_stops_reading(memory: MemoryNetwork) -> None:
    """64 requests for 256 KiB each in one chunk do not become 16 MiB of output."""
    peer = Peer({8000: lambda _, request: request.answer(0, body=bytes(256 * 1024))})
    async with stream_pair(memory) as (near, far):
        async with open_connection(far, peer, limits=ConnectionLimits()) as theirs:
            await near.send_all(b"".join(encode_command(RemotingCommand(8000, opaque=n)) for n in range(64)))
            await wait_all_tasks_blocked()
            assert theirs.statistics().pending_bytes < 700_000
            received = 0
            while received < 64 * 256 * 1024:
                received += len(await near.receive_some(1_000_000))
            assert theirs.is_open


async def test_parked_answers_to_one_who_does_not_read_close_it(memory: MemoryNetwork) -> None:
    peer = Peer()
    async with stream_pair(memory) as (near, far):
        async with open_connection(far, peer, limits=ConnectionLimits()) as theirs:
            await near.send_all(encode_command(RemotingCommand(PARK)) * 60)
            await wait_all_tasks_blocked()
            for connection, request in peer.parked:
                connection.send_answer(request, request.answer(0, body=bytes(256 * 1024)))
            assert isinstance(theirs.error, RemoteProtocolError)
            assert "does not read" in str(theirs.error)


async def test_requests_in_flight_of_a_peer_are_bounded(memory: MemoryNetwork) -> None:
    peer = Peer()
    async with stream_pair(memory) as (near, far):
        async with open_connection(far, peer, limits=ConnectionLimits(max_parked=100, frames_per_turn=10)) as theirs:
            await near.send_all(encode_command(RemotingCommand(PARK)) * 500)
            await wait_all_tasks_blocked()
            assert theirs.statistics().parked == len(peer.parked) == 100
            peer.answer_parked()
            await wait_all_tasks_blocked()
            assert theirs.statistics().received_requests == 210
            while len(peer.seen) < 500:
                peer.answer_parked()
                await wait_all_tasks_blocked()
            peer.answer_parked()
            assert theirs.statistics().parked == 0


# --- silence -------------------------------------------------------------------------------------------


async def test_threat_L3_a_silent_peer_is_closed_by_the_server_when_idle(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    async with running_server(memory) as server:
        stream = await connect(memory, server)
        await stream.send_all(FRAME)
        await read_command(stream)
        assert await is_closed(stream)
        assert 120 <= trio.current_time() <= 150
        assert not server.connections


@pytest.mark.parametrize("direction", ["server", "client", "both"])
async def test_threat_L3_a_client_notices_a_half_open_link_within_a_minute(
    memory: MemoryNetwork, clock: MockClock, direction: str
) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        connection = await pool.get(server.addresses[0], timeout=5)

        async def heartbeat() -> None:
            async for _ in ticks(30, initial_delay=0):
                try:
                    await connection.request(RemotingCommand(ECHO), timeout=3)
                except (RequestTimeoutError, ConnectionLostError):
                    continue

        async with trio.open_nursery() as nursery:
            nursery.start_soon(heartbeat)
            await trio.sleep(61)
            assert connection.is_open
            silenced = trio.current_time()
            (link,) = memory.links()
            link.pause(direction)
            closed = trio.Event()
            connection.add_close_callback(lambda _: closed.set())
            await closed.wait()
            assert trio.current_time() - silenced <= 60
            assert "sent nothing for 10 s after a request ran out" in str(connection.error)
            nursery.cancel_scope.cancel()


async def test_threat_L3_a_slow_peer_that_still_speaks_is_not_taken_for_dead(
    memory: MemoryNetwork, clock: MockClock
) -> None:
    async with running_server(memory) as server, ConnectionPool(memory).open() as pool:
        connection = await pool.get(server.addresses[0], timeout=5)
        (link,) = memory.links()
        link.set_delay(4, toward="client")
        for _ in range(10):
            with pytest.raises(RequestTimeoutError):
                await connection.request(RemotingCommand(ECHO), timeout=3)
            await trio.sleep(7)
        assert connection.is_open
        assert connection.statistics().unknown_answers == 10


async def test_switched_off_timers_never_ring(memory: MemoryNetwork, clock: MockClock) -> None:
    limits = attrs.evolve(ConnectionLimits(), frame_timeout=None, idle_timeout=None)
    async with stream_pair(memory) as (near, far), open_connection(far, Peer(), limits=limits) as theirs:
        await near.send_all(FRAME[:30])
        await trio.sleep(80_000)
        assert theirs.is_open
        await near.send_all(FRAME[30:])
        assert (await read_command(near)).code == 0


# --- cancellation --------------------------------------------------------------------------------------


async def test_cancelling_at_every_checkpoint_leaves_nothing_behind(memory: MemoryNetwork) -> None:
    """A whole life of a client, cancelled after each possible number of steps."""
    async with running_server(memory, Peer()) as server:
        steps = 0
        while await cancelled_after(steps, ConnectionPool(memory), server.addresses[0]):
            await wait_all_tasks_blocked()
            assert not server.connections
            assert not memory.links()
            steps += 1
        assert steps > 10


async def cancelled_after(steps: int, pool: ConnectionPool, address: str) -> bool:
    """Whether that many checkpoints are too few for the life of a client."""

    async def cancel(scope: trio.CancelScope) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    finished = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel, nursery.cancel_scope)
        async with pool.open():
            connection = await pool.get(address, timeout=5)
            await connection.request(RemotingCommand(ECHO, body=bytes(300_000)), timeout=5)
            await connection.wait_writable()
            finished = True
        nursery.cancel_scope.cancel()
    assert pool.statistics().open == 0
    return not finished


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_threat_L8_a_connection_that_a_request_closes_gives_back_what_it_kept(memory: MemoryNetwork) -> None:
    def hang_up(connection: Connection, request: RemotingCommand) -> None:
        connection.close()

    async with running_server(memory, Peer({ECHO: hang_up})) as server:
        stream = await connect(memory, server)
        await stream.send_all(FRAME + FRAME[:50])
        assert await is_closed(stream)
        assert server.budget.kept == 0
