"""The cable of one member of a group: what it opens on a network in memory, to be cut or to fall silent alone."""

from __future__ import annotations

import errno
from typing import Literal

import trio

from rocketpy.remoting.memory import MemoryLink, MemoryNetwork
from rocketpy.remoting.memory_stream import MemoryStream
from rocketpy.remoting.network import Listener


class Cable:
    """A network that is another one, seen from one machine."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._mine: list[str] = []
        self._silenced: list[MemoryLink] = []
        self._refused = False
        self._heard = trio.Event()
        self._heard.set()

    async def open_stream(self, host: str, port: int) -> MemoryStream:
        await self._heard.wait()
        if self._refused:
            raise OSError(errno.ENETUNREACH, "the cable is cut")
        stream = await self._network.open_stream(host, port)
        self._mine.append(stream.local_address)
        return stream

    async def listen(self, host: str, port: int) -> list[Listener]:
        return await self._network.listen(host, port)

    def local_ip(self) -> str:
        return self._network.local_ip()

    def _links(self) -> list[MemoryLink]:
        links = [link for link in self._network.links() if link.client in self._mine]
        self._mine = [link.client for link in links]
        return links

    def cut(self) -> None:
        """Break everything, and let nothing through until `mend`."""
        self._refused = True
        for link in self._links():
            link.cut()

    def silence(self, toward: Literal["server", "client", "both"] = "both") -> None:
        """Deliver nothing in a direction until `mend`, and tell nobody."""
        self._heard = trio.Event()
        self._silenced += self._links()
        for link in self._silenced:
            link.pause(toward)

    def mend(self, *, lose: bool = False) -> None:
        """Deliver again, first what has gathered; or lose that, and the connections."""
        self._refused = False
        self._heard.set()
        # What a member has sent and closed meanwhile arrives as well, as it would from a socket.
        links, self._silenced = [*self._links(), *self._silenced], []
        for link in links:
            link.cut() if lose else link.resume()
