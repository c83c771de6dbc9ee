"""The writing half of a connection that threads share: frames are appended, and one thread at a time writes them all.

Nobody waits for the right to write: a thread that finds it taken leaves its frame to the one that has it, which looks
once more before it goes. What the kernel does not take, and frames that are left for later, are written by a thread of
the connection that does nothing else.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable

from rocketpy.errors import ConnectionLostError
from rocketpy.remoting.data.flusher import Flusher

__all__ = ["ThreadOutput"]

_SEND_SIZE = 256 * 1024
_GATHER_FRAMES = 32
_GATHER_BYTES = 32 * 1024


class ThreadOutput:
    """What is to be written to one socket.

    Args:
        connection: a socket that does not block for those who say so.
        address: of the peer, for error texts.
        inside: the threads within lines that a signal handler of theirs must not enter again.
        lost: told in the thread that writes that the socket is broken.
        left: told when nobody writes any more to what was closed meanwhile.

    Attributes:
        pending: bytes that are appended and not yet taken by the kernel.
        sent: bytes that it has taken.
        flusher: writes what callers leave.
    """

    def __init__(
        self,
        connection: socket.socket,
        address: str,
        inside: set[int],
        lost: Callable[[ConnectionLostError], object],
        left: Callable[[], object],
    ) -> None:
        self._socket = connection
        self._address = address
        self._inside = inside
        self.flusher = Flusher(self._flush_told)
        self._lost = lost
        self._left = left
        self._frames: deque[bytes] = deque()
        self._rest: memoryview | bytes = b""
        self._role = threading.Lock()
        self._closed = False
        self._told = False
        self._appended = 0
        self.sent = 0

    @property
    def pending(self) -> int:
        """Bytes that wait to be written; nearly right while others write."""
        return self._appended - self.sent

    def append(self, frame: bytes) -> None:
        """Add a frame; it stays until a flush."""
        self._frames.append(frame)
        size = len(frame)
        self._appended += size  # without a call in between, in which another thread might do the same

    def flush(self) -> None:
        """Write what has gathered, as far as that goes without waiting, unless another thread does."""
        me = threading.get_ident()
        within = me in self._inside  # of reading, whose answer lets the next request begin
        while (self._frames or self._rest) and not self._closed:
            self._inside.add(me)
            try:
                if not self._role.acquire(False):
                    return
                try:
                    whole = self._write()
                finally:
                    self._let_go()
            except BaseException as exc:
                # Ctrl-C, or another exception of a signal handler, within these lines: how much is written is unknown.
                self._broke(exc)
                raise
            finally:
                if not within:
                    self._inside.discard(me)
            if not whole:
                self._ask_flusher()
                return

    def flush_later(self) -> None:
        """Write what has gathered when there is enough of it, else soon, in another thread."""
        if len(self._frames) >= _GATHER_FRAMES or self._appended - self.sent >= _GATHER_BYTES:
            self.flush()
        elif not self._told:
            self._told = True
            self._ask_flusher()

    def _ask_flusher(self) -> None:
        try:
            self.flusher.ask()
        except RuntimeError as exc:
            self._broke(exc)  # no more threads can be had, and nobody else would write it

    def _flush_told(self) -> bool:
        """For the flusher: write; whether nothing is left to be written."""
        self._told = False
        # Looked at once more after each turn: a frame that came just before its end was left to us.
        while (self._frames or self._rest) and not self._closed:
            if not self._role.acquire(False):
                return True  # the thread that has the role writes it all, or asks again
            try:
                if not self._write():
                    return False
            finally:
                self._let_go()
        return True

    def close(self) -> None:
        """Write nothing any more."""
        self._closed = True
        self.flusher.close()

    def try_hold(self) -> bool:
        """Take the right to write, so that nobody else has it any more. False when somebody writes."""
        return self._role.acquire(False)

    @property
    def is_held(self) -> bool:
        """Whether somebody has it, who says so when it is given back after the close."""
        return self._role.locked()

    def let_go(self) -> None:
        """Give it back."""
        self._role.release()

    def _let_go(self) -> None:
        """Give the role back after writing."""
        self._role.release()
        if self._closed:
            self._left()

    def _write(self) -> bool:
        """Give the kernel what it takes; whether it took everything. Only with the role."""
        while self._rest or self._frames:
            data = self._rest or self._gather()
            try:
                count = self._socket.send(data, socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                self._rest = data
                return False
            except OSError as exc:
                self._broke(exc)
                return True
            self.sent += count
            self._rest = memoryview(data)[count:] if count < len(data) else b""
        return True

    def _gather(self) -> bytes:
        frames = self._frames
        if len(frames) == 1:
            return frames.popleft()
        parts, size = [], 0
        while frames and size < _SEND_SIZE:
            parts.append(frames.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def _broke(self, exc: BaseException) -> None:
        self._closed = True
        self._lost(ConnectionLostError(f"the connection to {self._address} broke: {exc!r}", address=self._address))
