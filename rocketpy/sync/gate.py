"""How much may be in flight at once: by number and by bytes. Waiting is the back-pressure."""

from __future__ import annotations

import threading

from rocketpy.errors import ClientClosedError

__all__ = ["Gate"]


class Gate:
    """Lets sends through while fewer than `count` and fewer than `size` bytes are under way.

    A message larger than `size` goes through alone.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._used_count = 0
        self._used_size = 0
        self._closed = False
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0

    def enter(self, size: int) -> None:
        """Wait for room and take it.

        Raises:
            ClientClosedError: the gate was closed meanwhile.
        """
        with self._changed:
            while not self._closed and not self._has_room(size):
                self._waiting += 1
                try:
                    self._changed.wait()
                finally:
                    self._waiting -= 1
            if self._closed:
                raise ClientClosedError("the producer is closed: no message can be sent with it any more")
            self._used_count += 1
            self._used_size += size

    def _has_room(self, size: int) -> bool:
        return not self._used_count or (self._used_count < self._count and self._used_size + size <= self._size)

    def leave(self, size: int) -> None:
        """Give the room back."""
        with self._changed:
            self._used_count -= 1
            self._used_size -= size
            if self._waiting:
                self._changed.notify(self._waiting)

    def open(self) -> None:
        """Let sends through."""
        with self._changed:
            self._closed = False

    def close(self) -> None:
        """Turn away everybody who waits, and whoever comes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
