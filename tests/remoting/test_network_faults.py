"""What the system may fail at while a server listens, once and for ten seconds: it goes on listening and serving."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio

from rocketpy.remoting import tcp, transport
from rocketpy.remoting.network import TcpNetwork
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import ECHO, connect, is_closed, read_command, running_server

if TYPE_CHECKING:
    import socket

    from trio.testing import MockClock

FILES, MEMORY, UNKNOWN = (
    "raise the limit of open files",
    "free memory on this machine",
    "the log of this machine's kernel",
)
AT_ACCEPT = {"EMFILE": FILES, "ENFILE": FILES, "ENOMEM": MEMORY, "ENOBUFS": MEMORY, "EIO": UNKNOWN}
"""What accepting fails with, and what its line in the log says to do."""
AT_ACCEPT |= dict.fromkeys(["ECONNABORTED", "EINTR", "EPROTO", "EPERM"], "")
"""These pass by themselves, without a line."""
FOR_ONCE, TEN_SECONDS = 0.0, 10.0
PASSING = [(code, seconds) for code in ("ENOMEM", "ENOBUFS") for seconds in (FOR_ONCE, TEN_SECONDS)]
"""What a connection outlives. Nothing interrupts calls for ten seconds."""
PASSING.append(("EINTR", FOR_ONCE))
SHORT = "short"
"""In the place of a code: a part of what there is."""
PASSING += [(SHORT, FOR_ONCE), (SHORT, TEN_SECONDS)]
FRAME = encode_command(RemotingCommand(ECHO, body=b"x" * 100))


class Faults:
    """Which calls fail now, and until when."""

    def __init__(self) -> None:
        self.call = ""
        self.code = 0
        self.until = 0.0
        self.left = 0
        self.failed = 0

    def strike(self, call: str, code: str, seconds: float) -> None:
        """Fail a call once, or each time for so many seconds; `SHORT` lets it do a seventh of what it could."""
        self.call, self.code = call, 0 if code == SHORT else getattr(errno, code)
        self.until, self.left = trio.current_time() + seconds, 1

    def check(self, call: str) -> bool:
        """Fail if it is time to; whether the call shall do a part only."""
        if call != self.call or (self.left <= 0 and trio.current_time() >= self.until):
            return False
        self.left -= 1
        self.failed += 1
        if self.code == 0:
            return True
        raise OSError(self.code, os.strerror(self.code))


class FaultySocket:
    """A socket of the system that fails when it is told to."""

    def __init__(self, inner: socket.socket, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults

    def accept(self) -> tuple[socket.socket, Any]:
        self.faults.check("accept")
        return self.inner.accept()

    def recv(self, size: int) -> bytes:
        return self.inner.recv(7 if self.faults.check("recv") else size)

    def send(self, data: bytes) -> int:
        return self.inner.send(memoryview(data)[: len(data) // 7 + 1] if self.faults.check("send") else data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """What a server listens on, reads and writes fails as these say; the streams of the tests never do."""
    made = Faults()
    listening, taken = tcp._listening, tcp.socket_of
    monkeypatch.setattr(tcp, "_listening", lambda *args: FaultySocket(listening(*args), made))
    monkeypatch.setattr(transport, "socket_of", lambda stream: FaultySocket(taken(stream), made))
    return made


async def ask(stream: trio.abc.Stream) -> int:
    """The code of the answer to an echo."""
    await stream.send_all(FRAME)
    return (await read_command(stream)).code


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [FOR_ONCE, TEN_SECONDS], ids=["once", "ten seconds"])
@pytest.mark.parametrize(("code", "remedy"), AT_ACCEPT.items())
async def test_a_listener_outlives_what_accepting_fails_with(
    code: str, remedy: str, seconds: float, faults: Faults, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = TcpNetwork()
    async with running_server(network) as server, await connect(network, server) as before:
        assert await ask(before) == 0
        faults.strike("accept", code, seconds)
        async with await connect(network, server) as late:
            with trio.fail_after(seconds + 1):
                assert await ask(late) == 0
        assert faults.failed >= 1
        assert await ask(before) == 0
    assert remedy in caplog.text
    assert ("no connection can be accepted" in caplog.text) == bool(remedy)


@pytest.mark.parametrize(("code", "seconds"), PASSING)
@pytest.mark.parametrize("call", ["recv", "send"])
async def test_a_connection_outlives_what_passes(
    call: str, code: str, seconds: float, faults: Faults, clock: MockClock
) -> None:
    network = TcpNetwork()
    async with running_server(network) as server, await connect(network, server) as stream:
        assert await ask(stream) == 0
        faults.strike(call, code, seconds)
        with trio.fail_after(seconds + 1):
            assert await ask(stream) == 0
        assert faults.failed >= 1


@pytest.mark.parametrize("seconds", [FOR_ONCE, TEN_SECONDS], ids=["once", "ten seconds"])
@pytest.mark.parametrize("call", ["recv", "send"])
async def test_an_error_of_a_connection_is_the_end_of_that_one_alone(
    call: str, seconds: float, faults: Faults, clock: MockClock
) -> None:
    network = TcpNetwork()
    async with running_server(network) as server, await connect(network, server) as stream:
        assert await ask(stream) == 0
        faults.strike(call, "EIO", seconds)
        await stream.send_all(FRAME)
        assert await is_closed(stream)
        assert faults.failed == 1
        await trio.sleep(seconds)
        async with await connect(network, server) as late:
            assert await ask(late) == 0


async def test_a_shortage_costs_no_processor_time(faults: Faults, clock: MockClock) -> None:
    """The socket is ready all the while: without a pause the loop would spin."""
    network = TcpNetwork()
    async with running_server(network) as server, await connect(network, server) as stream:
        assert await ask(stream) == 0
        for call in ("recv", "send"):
            faults.failed = 0
            faults.strike(call, "ENOBUFS", TEN_SECONDS)
            assert await ask(stream) == 0
            assert faults.failed <= 250


async def test_what_the_system_refuses_while_a_connection_is_admitted_ends_that_one(
    faults: Faults, clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = TcpNetwork()
    async with running_server(network) as server:
        inner = tcp.socket_of

        def struck(stream: trio.SocketStream) -> socket.socket:
            monkeypatch.setattr(transport, "socket_of", inner)
            raise OSError(errno.ENFILE, "file table overflow")

        monkeypatch.setattr(transport, "socket_of", struck)
        async with await connect(network, server) as refused:
            assert await is_closed(refused)
        async with await connect(network, server) as stream:
            assert await ask(stream) == 0
