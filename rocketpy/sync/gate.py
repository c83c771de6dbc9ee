"""How much may be in flight at once: by number and by bytes. Waiting is the back-pressure."""

from __future__ import annotations

import threading

from rocketpy.errors import ClientClosedError

__all__ = ["Gate"]


_EASED = 0.75
"""Share of the bounds under which whoever waits is woken: for many messages at once and not for each that leaves."""


class Gate:
    """Lets sends through while fewer than `count` and fewer than `size` bytes are under way.

    A message larger than `size` goes through alone. Whoever enters shows a ticket, any object of its own, and leaves
    with it, once or more often: so that a place which Ctrl-C struck at any moment can be given back without asking
    whether it was taken yet.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._eased = int(count * _EASED), int(size * _EASED)
        self._inside: dict[object, int] = {}
        self._used_size = 0
        self._closed = False
        self._lock = threading.Lock()  # used without the condition around it where nobody waits: it is faster
        self._changed = threading.Condition(self._lock)
        self._waiting = 0

    def enter(self, ticket: object, size: int) -> None:
        """Wait for room and take it.

        Raises:
            ClientClosedError: the gate was closed meanwhile.
        """
        with self._lock:
            while not self._closed and not self._has_room(size):
                self._waiting += 1
                try:
                    self._changed.wait()
                finally:
                    self._waiting -= 1
            if self._closed:
                raise ClientClosedError("the producer is closed: no message can be sent with it any more")
            self._inside[ticket] = size
            self._used_size += size

    def _has_room(self, size: int) -> bool:
        return not self._inside or (len(self._inside) < self._count and self._used_size + size <= self._size)

    def leave(self, ticket: object) -> None:
        """Give the room back."""
        with self._lock:
            size = self._inside.pop(ticket, None)
            if size is None:
                return
            self._used_size = self._used_size - size if self._inside else 0
            if self._waiting and self._is_eased():
                self._changed.notify(self._waiting)

    def _is_eased(self) -> bool:
        return not self._inside or (len(self._inside) <= self._eased[0] and self._used_size <= self._eased[1])

    def open(self) -> None:
        """Let sends through."""
        with self._lock:
            self._closed = False

    def close(self) -> None:
        """Turn away everybody who waits, and whoever comes."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
