"""Sockets of the system: how they are connected, listened on and accepted, each known to `fork` from its first moment.

Hosts with several addresses are tried side by side, as RFC 8305 asks for.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Any

import trio

from rocketpy.remoting.fork import close_in_child, no_fork
from rocketpy.wire.hosts import format_address

__all__ = ["TcpListener", "connect", "listen", "socket_of"]

_NEXT_AFTER = 0.25
"""Seconds after which the next address is tried, beside those that have not answered."""
_GONE_AGAIN = frozenset(
    getattr(errno, name, errno.ECONNABORTED)  # not every system knows all of them
    for name in (
        "ECONNABORTED", "EPERM", "EPROTO", "ENETDOWN", "ENOPROTOOPT", "EHOSTDOWN", "ENONET", "EHOSTUNREACH",
        "EOPNOTSUPP", "ENETUNREACH",
    )
)  # fmt: skip
"""What accepting says of one connection, which has ended meanwhile or was filtered out: the next one may be well."""

_GONE_IN_A_ROW = 64
_PAUSE = 0.05

_Target = tuple[Any, Any, int, str, Any]


def _made(target: _Target) -> socket.socket:
    family, kind, protocol, _, _ = target
    with no_fork():
        sock = socket.socket(family, kind, protocol)
        close_in_child(sock)
    return sock


# --- connecting ----------------------------------------------------------------------------------------


async def connect(host: str, port: int) -> trio.SocketStream:
    """Connect to the first address of a host that answers.

    Raises:
        OSError: none does, or the host is not known.
        UnicodeError: the resolver cannot take the name.
    """
    targets = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failures: list[OSError] = []
    connected: list[trio.SocketStream] = []
    try:
        await _race(_families_in_turn(targets), connected, failures)
    except BaseException:
        _close_all(connected)
        raise
    if not connected:
        causes = {os.strerror(exc.errno).lower() if exc.errno else str(exc) for exc in failures}
        if len(causes) == 1:
            raise OSError(causes.pop()) from failures[0]
        text = f"all attempts to connect to {format_address(host, port)} failed"
        raise OSError(text) from ExceptionGroup(text, failures)
    _close_all(connected[1:])
    return connected[0]


async def _race(targets: Sequence[_Target], connected: list[trio.SocketStream], failures: list[OSError]) -> None:
    async with trio.open_nursery() as nursery:

        @trio.lowlevel.enable_ki_protection
        async def attempt(target: _Target, failed: trio.Event) -> None:
            try:
                connected.append(await _connect_to(target))
            except OSError as exc:
                failures.append(exc)
                failed.set()
            else:
                nursery.cancel_scope.cancel()

        for target in targets:
            failed = trio.Event()
            nursery.start_soon(attempt, target, failed)
            with trio.move_on_after(_NEXT_AFTER):
                await failed.wait()


async def _connect_to(target: _Target) -> trio.SocketStream:
    sock = trio.socket.from_stdlib_socket(_made(target))
    try:
        await sock.connect(target[-1])
        return trio.SocketStream(sock)
    except BaseException:
        sock.close()
        raise


def _families_in_turn(targets: Sequence[_Target]) -> list[_Target]:
    """The addresses in the resolver's order, with the first one of the other family in the second place."""
    ordered = list(targets)
    other = next((target for target in ordered if target[0] != ordered[0][0]), None)
    if other is not None:
        ordered.remove(other)
        ordered.insert(1, other)
    return ordered


def _close_all(streams: Sequence[trio.SocketStream]) -> None:
    with no_fork():
        for stream in streams:
            stream.socket.close()


def socket_of(stream: trio.SocketStream) -> socket.socket:
    """Take the socket out of a stream, which is of no use any more."""
    shell = stream.socket
    family, kind, protocol = shell.family, shell.type, shell.proto
    with no_fork():
        sock = socket.socket(family, kind, protocol, fileno=shell.detach())
        close_in_child(sock)
    return sock


# --- listening -----------------------------------------------------------------------------------------


class TcpListener(trio.abc.Listener[trio.SocketStream]):
    """Takes connections to one address.

    Attributes:
        address: Where it listens, as "host:port".
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.address = format_address(*sock.getsockname()[:2])

    async def accept(self) -> trio.SocketStream:
        """The next connection.

        Raises:
            OSError: the system has no room for one more.
            ClosedResourceError: the listener is closed.
        """
        gone = 0
        while True:
            self._check_open()
            await trio.lowlevel.wait_readable(self._socket)
            self._check_open()  # it may have been closed between the event and this task's turn
            accepted = self._take()
            if accepted is not None:
                return _stream_of(accepted)
            gone += 1
            if gone % _GONE_IN_A_ROW == 0:
                # So many in a row were gone before they were accepted: that must not cost a whole processor.
                await trio.sleep(_PAUSE)

    def accept_now(self) -> trio.SocketStream | None:
        """A connection that is there already, None when the next one has to be waited for. Raises as `accept`."""
        self._check_open()
        accepted = self._take()
        return None if accepted is None else _stream_of(accepted)

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.ClosedResourceError

    def _take(self) -> socket.socket | None:
        """A connection, None when it has gone again."""
        try:
            with no_fork():
                accepted, _ = self._socket.accept()
                close_in_child(accepted)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as exc:
            if exc.errno in _GONE_AGAIN:
                return None
            raise
        return accepted

    async def aclose(self) -> None:
        """Listen no more."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            with no_fork():
                self._socket.close()
        await trio.lowlevel.checkpoint()


def _stream_of(accepted: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))


async def listen(host: str, port: int, backlog: int) -> list[TcpListener]:
    """Listen on every address that `host` stands for.

    Raises:
        OSError: the port is taken, or the address is not one of this machine.
    """
    flags = socket.AI_PASSIVE
    targets = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    listeners: list[TcpListener] = []
    unknown: OSError | None = None
    try:
        for target in targets:
            try:
                listeners.append(TcpListener(_listening(target, backlog)))
            except OSError as exc:
                if exc.errno != errno.EAFNOSUPPORT:
                    raise
                unknown = exc  # a name may stand for addresses of a family that this system does not speak
    except BaseException:
        for listener in listeners:
            await trio.aclose_forcefully(listener)
        raise
    if not listeners and unknown is not None:
        raise unknown
    return listeners


def _listening(target: _Target, backlog: int) -> socket.socket:
    sock = _made(target)
    try:
        if os.name != "nt":  # there it would let two servers share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if target[0] == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(target[-1])
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock
