"""A TCP proxy between clients and one server that a test can hold, let go on, cut and close.

While it is held it goes on reading, so that it can say which requests have come; it passes nothing on. What a client
has sent while the proxy was held is forgotten when that client hangs up: the server has never seen it.
"""

from __future__ import annotations

import re
import socket
import struct
from contextlib import suppress

import trio

SENDS = frozenset({10, 310, 320})
"""The codes of requests that send messages."""
_READ_SIZE = 65_536
_RESET = struct.pack("ii", 1, 0)
_JSON_CODE = re.compile(rb'"code":(\d+)')


class Frames:
    """Finds the requests in the bytes of one connection."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[int]:
        """The codes of the requests that are complete now."""
        self._rest += data
        codes = []
        while len(self._rest) >= 8:
            length, head = struct.unpack_from(">II", self._rest)
            if len(self._rest) < 4 + length:
                break
            header = bytes(self._rest[8 : 8 + (head & 0xFFFFFF)])
            del self._rest[: 4 + length]
            codes.append(_code(head >> 24, header))
        return codes


def _code(serialize_type: int, header: bytes) -> int:
    if serialize_type:
        return int.from_bytes(header[:2], "big")
    found = _JSON_CODE.search(header)
    return int(found[1]) if found else -1


class Proxy:
    """Serves while its task runs; every method is for that trio loop.

    Args:
        host: of the server.
        port: of the server.

    Attributes:
        address: where clients connect.
        sends: how many requests that send messages have come so far.
        requests: how many requests of any kind have come.
        connections: how many clients are connected now.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._passing = trio.Event()
        self._passing.set()
        self._open: set[_Link] = set()
        self._refusing = False
        self._scope = trio.CancelScope()
        self.address = ""
        self.sends = 0
        self.requests = 0

    @property
    def connections(self) -> int:
        return len(self._open)

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until it is cancelled, or closed."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    task_status.started()
                    await trio.serve_listeners(self._handle, [listener], handler_nursery=nursery)
        finally:
            self.cut()

    # --- what a test does to it ---------------------------------------------------------------------------

    def hold(self) -> None:
        """Pass nothing on, in either direction."""
        if self._passing.is_set():
            self._passing = trio.Event()

    def go_on(self) -> None:
        """Pass everything on, first what was held."""
        self._passing.set()
        self._refusing = False

    def cut(self) -> None:
        """Reset every connection; new ones are taken."""
        for link in list(self._open):
            link.reset()

    def refuse(self) -> None:
        """Reset every connection, and each that comes, until `go_on`."""
        self._refusing = True
        self.cut()

    def close(self) -> None:
        """Listen no more."""
        self._scope.cancel()

    # --- connections --------------------------------------------------------------------------------------

    async def _handle(self, client: trio.SocketStream) -> None:
        if self._refusing:
            _reset(client)
            return
        try:
            server = await trio.open_tcp_stream(*self._target)
        except OSError:
            _reset(client)
            return
        link = _Link(client, server)
        self._open.add(link)
        try:
            with link.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._upstream, link)
                    nursery.start_soon(self._downstream, link)
        finally:
            self._open.discard(link)
            link.close()

    async def _upstream(self, link: _Link) -> None:
        frames = Frames()
        sender, receiver = trio.open_memory_channel[bytes](1_000_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass_on, receiver, link.server)
            async with sender:
                while data := await _received(link.client):
                    codes = frames.feed(data)
                    self.requests += len(codes)
                    self.sends += sum(code in SENDS for code in codes)
                    sender.send_nowait(data)
            if not self._passing.is_set():
                link.scope.cancel()
        link.scope.cancel()

    async def _downstream(self, link: _Link) -> None:
        while data := await _received(link.server):
            await self._passing.wait()
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                await link.client.send_all(data)
        link.scope.cancel()

    async def _pass_on(self, receiver: trio.MemoryReceiveChannel[bytes], server: trio.SocketStream) -> None:
        async for data in receiver:
            await self._passing.wait()
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                await server.send_all(data)


class _Link:
    """A client's connection and its counterpart."""

    def __init__(self, client: trio.SocketStream, server: trio.SocketStream) -> None:
        self.client = client
        self.server = server
        self.scope = trio.CancelScope()

    def reset(self) -> None:
        for stream in (self.client, self.server):
            _linger_not(stream)
        self.scope.cancel()

    def close(self) -> None:
        for stream in (self.client, self.server):
            stream.socket.close()


async def _received(stream: trio.SocketStream) -> bytes:
    try:
        return bytes(await stream.receive_some(_READ_SIZE))
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


def _linger_not(stream: trio.SocketStream) -> None:
    with suppress(OSError):
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _reset(stream: trio.SocketStream) -> None:
    _linger_not(stream)
    stream.socket.close()
