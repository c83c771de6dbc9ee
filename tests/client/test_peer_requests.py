"""A broker's requests over a data connection wait in a bounded queue, and take no more than their share of the loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from trio.testing import MockClock

from rocketpy.client.peer_requests import MOST_BYTES, MOST_WAITING, PeerRequests
from rocketpy.errors import ClientClosedError, ConnectionLostError
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.rounds import SLICE_SECONDS
from rocketpy.wire.codes import ONEWAY_FLAG, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.serialize import decode_command

ECHO = 7001


class Loop:
    """Collects the functions posted to a loop, and the answers that are sent."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], object]] = []
        self.answers: list[RemotingCommand] = []
        self.seen: list[int] = []

    def echo(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.seen.append(request.opaque)
        return request.answer(remark=request.remark)

    def deliver(self, frame: bytes) -> None:
        decoder = FrameDecoder()
        decoder.receive_data(frame)
        self.answers += map(decode_command, decoder.frames())

    def turn(self) -> None:
        """Call what has been posted so far."""
        posted = list(self.posted)
        self.posted.clear()
        for each in posted:
            each()

    def requests(self) -> PeerRequests:
        dispatcher = RequestDispatcher({ECHO: self.echo})
        return PeerRequests("b:1", dispatcher, post=self.posted.append, deliver=self.deliver)


def asking(count: int, *, body: bytes = b"", flag: int = 0) -> list[RemotingCommand]:
    return [RemotingCommand(ECHO, {}, body, number, flag) for number in range(count)]


async def test_all_are_answered_in_order_and_the_loop_is_asked_once(autojump_clock: MockClock) -> None:
    loop = Loop()
    requests = loop.requests()
    requests.take(asking(3))
    requests.take(asking(2))
    assert len(loop.posted) == 1
    loop.turn()
    assert [each.opaque for each in loop.answers] == [0, 1, 2, 0, 1]
    requests.take(asking(1, flag=ONEWAY_FLAG))
    loop.turn()
    assert (len(loop.answers), loop.seen[-1], loop.posted) == (5, 0, [])


async def test_one_turn_of_the_loop_carries_out_what_it_has_time_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    class Slow(Loop):
        def echo(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
            nonlocal now
            now += SLICE_SECONDS / 32
            return super().echo(connection, request)

    monkeypatch.setattr("rocketpy.remoting.rounds.clock_here", lambda: lambda: now)
    loop = Slow()
    loop.requests().take(asking(100))
    counts = []
    while loop.posted:
        loop.turn()
        counts.append(len(loop.answers))
    assert counts == [32, 64, 96, 100]
    assert loop.seen == list(range(100))


@pytest.mark.parametrize(("body", "most"), [(b"", MOST_WAITING), (bytes(MOST_BYTES // 4), 4)])
async def test_what_is_too_much_is_refused(
    autojump_clock: MockClock, body: bytes, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop()
    requests = loop.requests()
    requests.take(asking(most + 10, body=body))
    requests.take(asking(10, body=body, flag=ONEWAY_FLAG))
    assert [each.code for each in loop.answers] == [ResponseCode.SYSTEM_BUSY] * 10
    assert [each.opaque for each in loop.answers] == list(range(most, most + 10))
    assert len(caplog.records) == 1
    while loop.posted:
        loop.turn()
    assert loop.seen == list(range(most))
    # There is room again.
    requests.take(asking(1, body=bytes(MOST_BYTES + 1)))
    loop.turn()
    assert loop.seen[-1] == 0


async def test_a_connection_or_a_process_that_ends_hurts_nobody(autojump_clock: MockClock) -> None:
    def lost(frame: bytes) -> None:
        raise ConnectionLostError("the connection has ended")

    def ended(function: Callable[[], object]) -> None:
        raise ClientClosedError("the process is ending")

    loop = Loop()
    dispatcher = RequestDispatcher({ECHO: loop.echo})
    requests = PeerRequests("b:1", dispatcher, post=loop.posted.append, deliver=lost)
    requests.take(asking(MOST_WAITING + 2))
    loop.turn()
    assert loop.seen
    PeerRequests("b:1", dispatcher, post=ended, deliver=loop.deliver).take(asking(1))


async def test_what_cannot_be_written_is_answered_all_the_same(autojump_clock: MockClock) -> None:
    loop = Loop()
    asked = asking(2)
    asked[0].remark = "\ud800"
    loop.requests().take(asked)
    loop.turn()
    assert [each.code for each in loop.answers] == [ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS]
