"""TransientPool: buffers outside the page cache that take records before the file does, one for each log file in use.

A buffer is memory of the size of a log file, of which the system gives only what is touched. It is made when it is
first needed and used again when its file has everything. Plays the part of TransientStorePool.
"""

from __future__ import annotations

import mmap
from collections import deque

__all__ = ["TransientBuffer", "TransientPool"]


class TransientBuffer:
    """What one log file will hold.

    Attributes:
        start: Position in the log of its first byte.
    """

    __slots__ = ("_memory", "_view", "start")

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size)
        self._view = memoryview(self._memory)
        self.start = 0

    def write(self, data: bytes, position: int) -> None:
        """Keep `data` for a position of the log."""
        at = position - self.start
        self._view[at : at + len(data)] = data

    def part(self, begin: int, end: int) -> memoryview:
        """What stands between two positions of the log."""
        return self._view[begin - self.start : end - self.start]

    def close(self) -> None:
        """Give the memory back to the system."""
        self._view.release()
        self._memory.close()


class TransientPool:
    """The buffers of one log. The loop takes them, a thread gives them back.

    Args:
        count: How many there may be.
        size: Bytes of each.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._made = 0  # by the loop alone: what two of them counted could get lost
        self._spare: deque[TransientBuffer] = deque()

    @property
    def available(self) -> int:
        """How many may still be taken."""
        return self._count - self._made + len(self._spare)

    def take(self, start: int) -> TransientBuffer | None:
        """A buffer for the file that begins at `start`; None when all are taken."""
        if self._spare:
            buffer = self._spare.popleft()
        elif self._made < self._count:
            buffer = TransientBuffer(self._size)
            self._made += 1
        else:
            return None
        buffer.start = start
        return buffer

    def give_back(self, buffer: TransientBuffer) -> None:
        """The file has everything of it."""
        self._spare.append(buffer)

    def close(self) -> None:
        """Give the memory of those that are not taken back to the system."""
        while self._spare:
            self._spare.popleft().close()
            self._made -= 1
