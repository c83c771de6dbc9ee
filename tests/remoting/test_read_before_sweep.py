"""A loop that was kept from turning reads the answers that have come meanwhile before any request runs out."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import RequestTimeoutError
from rocketpy.remoting.connection import open_connection
from rocketpy.remoting.network import Network
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.serialize import decode_command, encode_command
from tests.remoting.helpers import PARK, Peer, connection_pair


@pytest.fixture
def clock() -> MockClock:
    """Moves when the test says so."""
    return MockClock()


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("again", range(8))  # trio shuffles who goes first in a turn
async def test_answers_that_came_during_a_pause_are_no_timeouts(clock: MockClock, count: int, again: int) -> None:
    answers = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()

    async def ask() -> None:
        answers.append(await ours.request(RemotingCommand(PARK), timeout=3))

    with far:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(near))
        async with open_connection(stream, Peer(), address="far:1") as ours, trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            answer_all(far, count)  # the loop does not turn meanwhile
            clock.jump(5)
    assert len(answers) == count


def answer_all(far: socket.socket, count: int) -> None:
    """Answer so many requests, without a loop."""
    decoder, answered = FrameDecoder(), 0
    far.setblocking(True)
    while answered < count:
        decoder.receive_data(far.recv(65536))
        for frame in decoder.frames():
            far.sendall(encode_command(decode_command(frame).answer()))
            answered += 1


async def test_what_has_not_come_runs_out_as_ever(network: Network, clock: MockClock) -> None:
    clock.autojump_threshold = 0.01  # sockets have the time that they need
    async with connection_pair(network, Peer()) as (ours, _):
        before = trio.current_time()
        with pytest.raises(RequestTimeoutError, match=r"no answer from .* in time"):
            await ours.request(RemotingCommand(PARK), timeout=3)
        assert 3 <= trio.current_time() - before < 3.1


async def test_a_peer_that_never_stops_talking_puts_no_timeout_off_for_ever(network: Network, clock: MockClock) -> None:
    async with connection_pair(network, Peer()) as (ours, theirs), trio.open_nursery() as nursery:

        async def talk() -> None:
            while True:
                theirs.send_oneway(RemotingCommand(7004))
                await trio.lowlevel.checkpoint()

        nursery.start_soon(talk)

        async def wait_long() -> None:
            await trio.lowlevel.checkpoint()
            clock.jump(5)

        nursery.start_soon(wait_long)
        with pytest.raises(RequestTimeoutError):
            await ours.request(RemotingCommand(PARK), timeout=3)
        nursery.cancel_scope.cancel()
