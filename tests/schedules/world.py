"""The surroundings of a member: a network that can fail, and in a broadcast a disk with its offset file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import attrs
import trio

from rocketpy import MessageQueue
from rocketpy.consumer.offsets.local_file_offset_store import LocalFileOffsetStore
from rocketpy.remoting.memory import MemoryLink, MemoryNetwork
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.schedules.history import History

__all__ = ["KeptFile", "Leash", "World"]


class Leash:
    """The network of one member."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._links: list[MemoryLink] = []
        self.local_ip = network.local_ip
        self.listen = network.listen
        self.gone = False

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        if self.gone:
            raise OSError("there is no network")
        stream = await self._network.open_stream(host, port)
        # Others may open links at the same moment; the address identifies this one.
        mine = stream.local_address
        self._links += [link for link in self._network.links(mine) if link.client == mine]
        return stream

    def take_away(self, *, silently: bool) -> None:
        """Cut the network, as the end of a process does, or silently as a pulled cable does."""
        self.gone = True
        for link in self._links:
            if link.is_up:
                link.pause() if silently else link.cut()


class KeptFile:
    """The offset file of a member of a broadcast, as consumers write it, on a disk in memory that outlives the member.

    It is an OffsetStorage with async methods, so that no thread writes the file: virtual time would not wait for it.
    """

    def __init__(self, disk: MemoryStorage) -> None:
        self._kept = LocalFileOffsetStore("offsets.json", files=disk)
        self._gone = False

    async def open(self) -> None:
        await trio.lowlevel.checkpoint()
        self._kept.open()

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self._kept.close()

    async def read(self, queue: MessageQueue) -> int | None:
        await trio.lowlevel.checkpoint()
        return self._kept.read(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        await trio.lowlevel.checkpoint()
        if self._gone:
            raise OSError("the process has ended")
        self._kept.write(offsets)

    def let_go(self) -> None:
        """Act as if the process had ended: unlock the file, and write nothing more."""
        self._gone = True
        self._kept.close()


@attrs.frozen
class World:
    """The surroundings of a member.

    Attributes:
        namesrv: The address of the name server.
        leash: Its network.
        disk: Its disk.
        end_of: Returns the offset after the last message of a queue.
    """

    namesrv: str
    leash: Leash
    disk: MemoryStorage
    history: History
    chance: random.Random
    end_of: Callable[[MessageQueue], int]
