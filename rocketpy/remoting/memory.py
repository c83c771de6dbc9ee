"""A network in memory: a whole cluster in one loop, with links that can be cut, delayed, and silenced.

Streams are bounded like sockets, so that a slow reader holds up its writer. Faults are set on the network, for an
address (refuse, hang), or on a link (cut, pause a direction, delay). Plays the part of the loopback device.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Literal

import trio

from rocketpy.remoting.memory_stream import MemoryStream, Pipe
from rocketpy.remoting.network import LOOPBACK, Listener
from rocketpy.wire.hosts import format_address

__all__ = ["MemoryLink", "MemoryListener", "MemoryNetwork"]

_FIRST_FREE_PORT = 20_000
_FIRST_CLIENT_PORT = 40_000
_LAST_PORT = 65_535
_ANY_HOST = ("0.0.0.0", "::")
_BACKLOG = 128


class MemoryLink:
    """One connection, seen from the cable.

    Attributes:
        client: Address of the side that dialled.
        server: Address that was dialled.
    """

    def __init__(self, client: str, server: str, delay: float) -> None:
        self.client = client
        self.server = server
        self._pipes = {"server": Pipe(delay), "client": Pipe(delay)}

    def streams(self) -> tuple[MemoryStream, MemoryStream]:
        """The dialling side's end and the listening side's end."""
        to_server, to_client = self._pipes["server"], self._pipes["client"]
        return (
            MemoryStream(to_server, to_client, self.client, self.server),
            MemoryStream(to_client, to_server, self.server, self.client),
        )

    @property
    def is_up(self) -> bool:
        """Whether bytes can still come through, in one direction at least."""
        return not all(pipe.is_closed for pipe in self._pipes.values())

    def cut(self) -> None:
        """Break it now: both ends fail, what was under way is lost."""
        for pipe in self._pipes.values():
            pipe.break_off()

    def pause(self, toward: Literal["server", "client", "both"] = "both") -> None:
        """Deliver nothing in a direction until `resume`. What is written gathers, and then blocks, as in a socket."""
        for pipe in self._chosen(toward):
            pipe.pause(paused=True)

    def resume(self, toward: Literal["server", "client", "both"] = "both") -> None:
        """Deliver again, first what has gathered."""
        for pipe in self._chosen(toward):
            pipe.pause(paused=False)

    def set_delay(self, seconds: float, toward: Literal["server", "client", "both"] = "both") -> None:
        """Let what is written from now on arrive that much later. Bytes never overtake each other."""
        for pipe in self._chosen(toward):
            pipe.delay = seconds

    def _chosen(self, toward: str) -> Iterator[Pipe]:
        return (pipe for name, pipe in self._pipes.items() if toward in (name, "both"))


class MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    """Takes connections to one address of a memory network.

    Attributes:
        address: Where it listens, as "host:port".
    """

    def __init__(self, network: MemoryNetwork, host: str, port: int) -> None:
        self.address = format_address(host, port)
        self._network = network
        self._port = port
        self._send, self._receive = trio.open_memory_channel[MemoryStream](_BACKLOG)

    async def accept(self) -> MemoryStream:
        """The next connection."""
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            raise trio.ClosedResourceError from None

    async def aclose(self) -> None:
        """Listen no more; connections that nobody accepted are broken."""
        self._network.forget(self._port, self)
        self._send.close()
        while True:
            try:
                stream = self._receive.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                break
            stream.close()
        await trio.lowlevel.checkpoint()

    def offer(self, stream: MemoryStream) -> None:
        """Queue a connection for the listener to accept. Raises trio.WouldBlock when too many wait already."""
        self._send.send_nowait(stream)


class MemoryNetwork:
    """Every host name leads to the one machine that this network is; ports tell its listeners apart.

    Attributes:
        delay: Seconds that bytes take on links that are opened from now on.
    """

    def __init__(self, *, delay: float = 0.0) -> None:
        self.delay = delay
        self._listeners: dict[int, MemoryListener] = {}
        self._links: list[MemoryLink] = []
        self._refused: set[str] = set()
        self._hung: dict[str, trio.Event] = {}
        self._next_port = _FIRST_FREE_PORT
        self._next_client_port = _FIRST_CLIENT_PORT

    # --- the seam --------------------------------------------------------------------------------------

    async def open_stream(self, host: str, port: int) -> MemoryStream:
        """Connect to the listener on the port."""
        await trio.lowlevel.checkpoint()
        address = format_address(host, port)
        while address in self._hung:
            await self._hung[address].wait()
        listener = self._listeners.get(port)
        if listener is None or address in self._refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {address}")
        link = MemoryLink(format_address(LOOPBACK, self._client_port()), address, self.delay)
        ours, theirs = link.streams()
        try:
            listener.offer(theirs)
        except trio.WouldBlock:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"too many connections wait at {address}") from None
        self._links = [*(old for old in self._links if old.is_up), link]
        return ours

    async def listen(self, host: str, port: int) -> list[Listener]:
        """Listen on a port; 0 takes the next free one."""
        await trio.lowlevel.checkpoint()
        if port == 0:
            port = self._free_port()
        elif port in self._listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} is taken")
        listener = MemoryListener(self, LOOPBACK if host in _ANY_HOST else host, port)
        self._listeners[port] = listener
        return [listener]

    def local_ip(self) -> str:
        """The one address of the one machine."""
        return LOOPBACK

    def forget(self, port: int, listener: MemoryListener) -> None:
        """A listener has closed."""
        if self._listeners.get(port) is listener:
            del self._listeners[port]

    # --- faults ----------------------------------------------------------------------------------------

    def links(self, address: str | None = None) -> list[MemoryLink]:
        """The links that are up: all, or those to or from an address."""
        return [link for link in self._links if link.is_up and address in (None, link.server, link.client)]

    def cut(self, address: str | None = None) -> None:
        """Break the links to an address, or all."""
        for link in self.links(address):
            link.cut()

    def refuse(self, address: str) -> None:
        """Refuse new connections to an address, until `heal`."""
        self._refused.add(address)

    def hang(self, address: str) -> None:
        """Leave those who connect to an address without an answer, until `heal`."""
        self._hung.setdefault(address, trio.Event())

    def heal(self, address: str) -> None:
        """Take new connections to an address again."""
        self._refused.discard(address)
        event = self._hung.pop(address, None)
        if event is not None:
            event.set()

    # --- ports -----------------------------------------------------------------------------------------

    def _free_port(self) -> int:
        while self._next_port in self._listeners:
            self._next_port += 1
        self._next_port += 1
        return self._next_port - 1

    def _client_port(self) -> int:
        port = self._next_client_port
        self._next_client_port = port + 1 if port < _LAST_PORT else _FIRST_CLIENT_PORT
        return port
