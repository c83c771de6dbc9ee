"""Who owns the bytes of a connection: an output buffer with one writer task, over a socket or over any trio stream.

The socket form is the fast one. Nothing is awaited that need not be: a frame may go straight into the kernel while
nothing is buffered, and a chunk is received by waiting for readability and then reading without blocking, which costs
one turn of the loop instead of two. The stream form serves memory streams and TLS. In both, everything that gathers
during a tick leaves in one send.

The blocking surface attaches here: a thread that calls writes its frame itself, under a lock that is held around the
test for an empty buffer and the send in `SocketTransport.flush_now`; what the kernel does not take goes to the writer
task through `trio.lowlevel.TrioToken.run_sync_soon`. Its answer comes through `Connection.start_request`, whose
function releases the lock that the thread waits for.

Plays the part of Channel and ChannelOutboundBuffer.
"""

from __future__ import annotations

import errno
import socket
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn, TypeAlias

import trio

from rocketpy.errors import ConnectionLostError
from rocketpy.remoting.fork import no_fork
from rocketpy.remoting.memory_stream import MemoryStream
from rocketpy.remoting.tcp import socket_of

__all__ = ["MOST_RECEIVED", "SocketTransport", "StreamTransport", "Transport", "transport_of"]

_OUT_OF_MEMORY = frozenset({errno.ENOMEM, errno.ENOBUFS})
"""What the system says when it is short of memory just now: the socket is as good as before."""
_AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing waits for nothing and keeps nothing."""
_SHORTAGE_PAUSE = 0.05
_SEND_SIZE = 256 * 1024
_RECEIVE_SIZE = 64 * 1024
MOST_RECEIVED = 1024 * 1024
"""Bytes that are received at a time at most."""

OnSent: TypeAlias = Callable[[], None]
BeforeRead: TypeAlias = Callable[[], Awaitable[None] | None]


class Transport(ABC):
    """Bytes in both directions, with the output buffered. Its connection runs `run_writer` as a task.

    Args:
        peer: where it leads to, for errors.
        on_sent: called when the stream has taken some bytes, while `tells_sent` is set.
    """

    def __init__(self, peer: str, on_sent: OnSent) -> None:
        self.peer = peer
        self._on_sent = on_sent
        self.tells_sent = False
        """Whether `on_sent` is called: only while so many bytes wait that they are counted."""
        self.pending = 0
        """Bytes that are written and not yet taken by the stream."""
        self.sent = 0
        """Bytes that the stream has taken since the beginning."""
        self.most_received = MOST_RECEIVED
        """Bytes that a read takes at most; its reader may lower it."""
        self._chunks: deque[bytes | memoryview] = deque()
        self._parked: trio.lowlevel.Task | None = None
        self._progress = trio.lowlevel.ParkingLot()

    def append(self, data: bytes) -> None:
        """Add to the output; it stays until a flush."""
        self._chunks.append(data)
        self.pending += len(data)

    def drop(self) -> None:
        """Keep nothing of the output: the stream is closed, and nobody will send it."""
        self._chunks.clear()

    def flush_soon(self) -> None:
        """Let the writer task send what has gathered by its turn, in the next tick."""
        if self._parked is not None:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)

    @abstractmethod
    def flush_now(self) -> None:
        """Send at once what can be sent without blocking, and leave the rest to the writer task.

        Raises:
            ConnectionLostError: the stream is broken.
        """

    @abstractmethod
    async def receive(self, before_read: BeforeRead | None = None) -> bytes:
        """The next bytes from the peer, b"" when it has closed its side.

        Args:
            before_read: called when bytes have come; where that can be told without reading them, before they are read.
                What it returns is awaited first.

        Raises:
            ConnectionLostError: the stream is broken.
        """

    @abstractmethod
    async def run_writer(self) -> NoReturn:
        """Send what gathers, until cancelled.

        Raises:
            ConnectionLostError: the stream is broken.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close at once, cancelled or not; what is buffered is lost."""

    @abstractmethod
    def reset(self) -> None:
        """Before it is closed: have the stream lose what it has taken and the peer has not got, where it can do that.

        A closed socket goes on sending for as long as the peer does not answer, which may be minutes.
        """

    async def wait_progress(self) -> None:
        """Wait until some bytes have left, or until somebody calls `wake`."""
        await self._progress.park()

    def wake(self) -> None:
        """Let everybody go on who waits for progress."""
        self._progress.unpark_all()

    async def _wait_for_output(self) -> None:
        """Park the writer task until there is something to send."""
        self._parked = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _gather(self) -> bytes | memoryview:
        """Take out what the next send shall carry: all, or about as much as a send can take."""
        chunks = self._chunks
        if len(chunks) == 1:
            return chunks.popleft()
        if self.pending <= _SEND_SIZE:
            joined = b"".join(chunks)
            chunks.clear()
            return joined
        parts, size = [], 0
        while chunks and size < _SEND_SIZE:
            parts.append(chunks.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def _note_sent(self, count: int) -> None:
        self.pending -= count
        self.sent += count
        if self._progress:
            self._progress.unpark_all()
        if self.tells_sent:
            self._on_sent()

    def _lost(self, exc: Exception) -> ConnectionLostError:
        return ConnectionLostError(f"the connection to {self.peer} broke: {exc}", address=self.peer)


class SocketTransport(Transport):
    """Takes the socket out of a trio.SocketStream and drives it directly."""

    def __init__(self, stream: trio.SocketStream, peer: str, on_sent: OnSent) -> None:
        super().__init__(peer, on_sent)
        self._socket = socket_of(stream)
        self._socket.setblocking(False)
        self._receive_size = _RECEIVE_SIZE
        self._is_short = False
        self._is_stuck = False
        """Whether the writer task waits until the socket takes more."""

    def flush_now(self) -> None:
        """Send what has gathered without blocking; the writer task is woken for the rest.

        Also if the writer task was woken already, by a one-way request just before: it then finds nothing left.
        """
        if self._chunks and not self._is_stuck and not self._send_some():
            self.flush_soon()

    @trio.lowlevel.enable_ki_protection
    async def run_writer(self) -> NoReturn:
        """Send what gathers; wait for the socket only when it took less than it was given."""
        while True:
            if not self._chunks:
                await self._wait_for_output()
            elif not self._send_some():
                await self._wait_writable()

    async def _wait_writable(self) -> None:
        """Wait until the socket takes more, or for a moment when it is the system that lacks memory."""
        self._is_stuck = True
        try:
            if self._is_short:
                self._is_short = False
                await trio.sleep(_SHORTAGE_PAUSE)
                return
            await trio.lowlevel.wait_writable(self._socket.fileno())
        except (OSError, trio.ClosedResourceError) as exc:
            await self._bear(exc)
        finally:
            self._is_stuck = False

    def _send_some(self) -> bool:
        """Give the kernel what it takes; whether it took everything."""
        while self._chunks:
            data = self._gather()
            try:
                count = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                count = 0
            except OSError as exc:
                if exc.errno not in _OUT_OF_MEMORY:
                    raise self._lost(exc) from exc
                self._is_short = True
                count = 0
            self._note_sent(count)
            if count < len(data):
                self._chunks.appendleft(memoryview(data)[count:])
                return False
        return True

    async def receive(self, before_read: BeforeRead | None = None) -> bytes:
        """Wait for bytes and read them; the size of a read follows what comes."""
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket.fileno())
                if before_read is not None and (waiting := before_read()) is not None:
                    await waiting
                data = self._socket.recv(min(self._receive_size, self.most_received))
            except (BlockingIOError, InterruptedError):
                continue
            except (OSError, trio.ClosedResourceError) as exc:
                await self._bear(exc)
                continue
            if len(data) == self._receive_size:
                self._receive_size = min(MOST_RECEIVED, self._receive_size * 2)
            elif len(data) * 4 < self._receive_size:
                self._receive_size = max(_RECEIVE_SIZE, self._receive_size // 2)
            return data

    async def _bear(self, exc: OSError | trio.ClosedResourceError) -> None:
        """Wait a moment when the system lacks memory; raises ConnectionLostError for everything else."""
        if not isinstance(exc, OSError) or exc.errno not in _OUT_OF_MEMORY:
            raise self._lost(exc) from exc
        await trio.sleep(_SHORTAGE_PAUSE)

    def reset(self) -> None:
        """The system shall forget what it holds, and tell the peer that the connection is gone."""
        with suppress(OSError):  # the socket is closed, or broken: it sends nothing more in any case
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

    async def aclose(self) -> None:
        """Close the socket. Plain underneath, so that cancellation cannot get in between."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket.fileno())
            with no_fork():
                self._socket.close()


class StreamTransport(Transport):
    """Any trio stream: memory, TLS."""

    def __init__(self, stream: trio.abc.Stream, peer: str, on_sent: OnSent) -> None:
        super().__init__(peer, on_sent)
        self._stream = stream

    def flush_now(self) -> None:
        """A stream has no way to send without waiting: the writer task does it in the next tick."""
        self.flush_soon()

    @trio.lowlevel.enable_ki_protection
    async def run_writer(self) -> NoReturn:
        """Send what gathers."""
        while True:
            if not self._chunks:
                await self._wait_for_output()
                continue
            data = self._gather()
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
                raise self._lost(exc) from exc
            self._note_sent(len(data))

    async def receive(self, before_read: BeforeRead | None = None) -> bytes:
        """Receive as much as the stream has, up to a chunk."""
        try:
            data = bytes(await self._stream.receive_some(_RECEIVE_SIZE))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            raise self._lost(exc) from exc
        if before_read is not None and (waiting := before_read()) is not None:
            await waiting
        return data

    def reset(self) -> None:
        """Of streams that are no sockets, those in memory can do it."""
        if isinstance(self._stream, MemoryStream):
            self._stream.reset()

    async def aclose(self) -> None:
        """Close the stream without its farewell."""
        await trio.aclose_forcefully(self._stream)


def transport_of(stream: trio.abc.Stream, peer: str, on_sent: OnSent) -> Transport:
    """The form that fits a stream. A socket stream is taken over: it is of no use to others any more."""
    if isinstance(stream, trio.SocketStream):
        return SocketTransport(stream, peer, on_sent)
    return StreamTransport(stream, peer, on_sent)
