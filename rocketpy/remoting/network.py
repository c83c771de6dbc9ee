"""The seam to the network: who opens streams and who listens. TCP here, memory streams in `memory`.

A network raises OSError, as the system does; the pool and the server say in typed errors what they were doing. TLS is
a network that wraps the streams of another one.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any, Protocol

import trio

from rocketpy.remoting.tcp import connect, listen
from rocketpy.wire.hosts import format_address

__all__ = ["LOOPBACK", "Listener", "Network", "TcpNetwork", "address_of_listener", "addresses_of"]

LOOPBACK = "127.0.0.1"
_BACKLOG = 1024

Listener = trio.abc.Listener[trio.abc.Stream]


class Network(Protocol):
    """Opens streams to addresses, and listens on them."""

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Connect.

        Raises:
            OSError: nobody listens there, or the host is not known.
        """
        ...

    async def listen(self, host: str, port: int) -> list[Listener]:
        """Listen on an address; port 0 takes a free one.

        Raises:
            OSError: the port is taken, or the address is not one of this machine.
        """
        ...

    def local_ip(self) -> str:
        """The address under which peers reach this machine."""
        ...


class TcpNetwork:
    """Sockets of the system, with TCP_NODELAY. Children of a fork close their copies at once."""

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Connect; hosts with several addresses are tried side by side, as RFC 8305 asks for."""
        try:
            return await connect(host, port)
        except UnicodeError as exc:
            # Addresses come from peers, too, and the resolver refuses an empty or overlong label in this way.
            raise OSError(errno.EINVAL, f"{host!r:.80} is not a host name") from exc

    async def listen(self, host: str, port: int) -> list[Listener]:
        """Listen on every address that `host` stands for."""
        listeners = await listen(host, port, _BACKLOG)
        if port == 0:
            # The system would choose a port for each address; a server has one.
            for extra in listeners[1:]:
                await extra.aclose()
            listeners = listeners[:1]
        return list(listeners)

    def local_ip(self) -> str:
        """The source address of packets that leave this machine; loopback when none could."""
        for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
            # Connecting a datagram socket sends nothing: it only asks for the route.
            try:
                with socket.socket(family, socket.SOCK_DGRAM) as probe:
                    probe.connect((target, 9))
                    return str(probe.getsockname()[0])
            except OSError:
                continue
        return LOOPBACK


def addresses_of(stream: trio.abc.Stream) -> tuple[str, str]:
    """The local and the peer's address of a stream as "host:port"; "" where that cannot be told."""
    while not isinstance(stream, trio.SocketStream):
        inner = getattr(stream, "transport_stream", None)
        if inner is None:
            return getattr(stream, "local_address", ""), getattr(stream, "peer_address", "")
        stream = inner
    return _text(stream.socket.getsockname), _text(stream.socket.getpeername)


def address_of_listener(listener: Listener) -> str:
    """Where a listener listens, as "host:port"."""
    return str(getattr(listener, "address", ""))


def _text(name: Callable[[], Any]) -> str:
    """A socket name as text; "" when the peer has gone before anybody asked."""
    try:
        host, port = name()[:2]
    except OSError:
        return ""
    return format_address(host, port)
