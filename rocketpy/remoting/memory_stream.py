"""The two ends of a link in memory, and the pipes between them, which can be paused, delayed and broken.

A pipe holds as much as a socket's buffers would, then its writer waits.
"""

from __future__ import annotations

import operator
from collections import deque

import trio

__all__ = ["MemoryStream", "Pipe"]

_CAPACITY = 256 * 1024


class Pipe:
    """Bytes in one direction."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self._ready = bytearray()
        self._on_the_way: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._paused = False
        self._ended = False
        self._broken = False
        self._reader_gone = False
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can come through."""
        return self._broken or self._ended or self._reader_gone

    def break_off(self) -> None:
        """Fail both sides, now."""
        self._broken = True
        self._changed.unpark_all()

    def pause(self, *, paused: bool) -> None:
        """Stop or start delivering."""
        self._paused = paused
        self._changed.unpark_all()

    def end(self) -> None:
        """The writer has closed: what is under way still arrives."""
        self._ended = True
        self._changed.unpark_all()

    def reset(self) -> None:
        """The writer takes back what the reader has not read, and closes."""
        self._ready.clear()
        self._on_the_way.clear()
        self._size = 0
        self.end()

    def abandon(self) -> None:
        """The reader has closed: writers fail."""
        self._reader_gone = True
        self._changed.unpark_all()

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Put bytes in, waiting while the pipe is full."""
        await trio.lowlevel.checkpoint()
        view = memoryview(data)
        while True:
            self._check_writable()
            if not view:
                return
            room = _CAPACITY - self._size
            if room > 0:
                self._put(bytes(view[:room]))
                view = view[room:]
            else:
                await self._changed.park()

    async def wait_room(self) -> None:
        """Wait until the pipe takes at least a byte."""
        await trio.lowlevel.checkpoint()
        self._check_writable()
        while self._size >= _CAPACITY and not self.is_closed:
            await self._changed.park()
        self._check_writable()

    def _check_writable(self) -> None:
        if self._ended:
            raise trio.ClosedResourceError("this side was closed")
        if self._broken or self._reader_gone:
            raise trio.BrokenResourceError("the link is down")

    async def read(self, limit: int) -> bytes:
        """Take bytes out, waiting for the first; b"" at the end."""
        await trio.lowlevel.checkpoint()
        while True:
            if self._reader_gone:
                raise trio.ClosedResourceError("this side was closed")
            if self._broken:
                raise trio.BrokenResourceError("the link is down")
            if not self._paused:
                self._land()
                if self._ready:
                    return self._get(limit)
                if self._ended and not self._on_the_way:
                    return b""
            await self._wait_for_bytes()

    def _put(self, data: bytes) -> None:
        self._size += len(data)
        if self.delay > 0 or self._on_the_way:
            last = self._on_the_way[-1][0] if self._on_the_way else 0.0
            self._on_the_way.append((max(last, trio.current_time() + self.delay), data))
        else:
            self._ready += data
        self._changed.unpark_all()

    def _land(self) -> None:
        now = trio.current_time()
        while self._on_the_way and self._on_the_way[0][0] <= now:
            self._ready += self._on_the_way.popleft()[1]

    def _get(self, limit: int) -> bytes:
        data = bytes(self._ready[:limit])
        del self._ready[:limit]
        self._size -= len(data)
        self._changed.unpark_all()
        return data

    async def _wait_for_bytes(self) -> None:
        if self._on_the_way and not self._paused:
            with trio.move_on_at(self._on_the_way[0][0]):
                await self._changed.park()
        else:
            await self._changed.park()


class MemoryStream(trio.abc.Stream):
    """One end of a link.

    Attributes:
        local_address: This end, as "host:port".
        peer_address: The other one.
    """

    def __init__(self, outgoing: Pipe, incoming: Pipe, local_address: str, peer_address: str) -> None:
        self.local_address = local_address
        self.peer_address = peer_address
        self._outgoing = outgoing
        self._incoming = incoming
        self._sending = False
        self._receiving = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it."""
        if self._sending:
            raise trio.BusyResourceError("another task is sending")
        self._sending = True
        try:
            await self._outgoing.write(data)
        finally:
            self._sending = False

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until there is room for some bytes."""
        if self._sending:
            raise trio.BusyResourceError("another task is sending")
        self._sending = True
        try:
            await self._outgoing.wait_room()
        finally:
            self._sending = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive what is there, at most `max_bytes`."""
        if self._receiving:
            raise trio.BusyResourceError("another task is receiving")
        limit = _CAPACITY if max_bytes is None else operator.index(max_bytes)
        if limit < 1:
            raise ValueError(f"max_bytes is {limit}: it must be at least 1")
        self._receiving = True
        try:
            return await self._incoming.read(limit)
        finally:
            self._receiving = False

    def close(self) -> None:
        """Close both directions; the peer still receives what was sent."""
        self._outgoing.end()
        self._incoming.abandon()

    def reset(self) -> None:
        """Close both directions; what was sent and the peer has not read is lost, as with a reset socket."""
        self._outgoing.reset()
        self._incoming.abandon()

    async def aclose(self) -> None:
        """Close, and give others a turn."""
        self.close()
        await trio.lowlevel.checkpoint()
