"""Bounds on the number and the bytes of messages that `send_soon` has under way; at the bound, callers wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic

from rocketpy.errors import ClientClosedError
from rocketpy.portal.waiting import acquire, wait

__all__ = ["Gate", "Gates"]


_EASED = 0.75
"""Waiting threads are woken below this share of the bounds: once for many messages, not for each one that leaves."""


class Gate:
    """Lets sends through while fewer than `count` and fewer than `size` bytes are under way.

    A message larger than `size` goes through alone. Every send enters with a ticket, which is an object of its own, and
    may leave with it more than once. So after Ctrl-C a place can be given back without knowing whether it was taken. A
    signal handler or finalizer that interrupts a thread which holds the lock, and sends too, is let through, because if
    it waited it would wait for itself.
    """

    def __init__(self, count: int, size: int) -> None:
        self._count = count
        self._size = size
        self._eased = int(count * _EASED), int(size * _EASED)
        self._inside: dict[object, int] = {}
        self._used_size = 0
        self._closed = False
        self._lock = threading.RLock()
        self._owned = threading.Condition(self._lock)
        self._waiting: deque[threading.Lock] = deque()
        self._until_empty: list[tuple[threading.Event, int]] = []

    def __len__(self) -> int:
        """How many are inside."""
        return len(self._inside)

    def enter(self, ticket: object, size: int, *, wait: bool = True, timeout: float | None = None) -> bool:
        """Take room, waiting up to `timeout` seconds for it unless `wait` is false. Returns False if there was none.

        Raises:
            ClientClosedError: the gate was closed meanwhile.
        """
        held = False
        until = None if timeout is None else monotonic() + timeout
        while True:
            with self._lock:
                if self._closed:
                    raise ClientClosedError("the producer is closed: no message can be sent with it any more")
                inside = self._inside
                if held or not inside or (len(inside) < self._count and self._used_size + size <= self._size):
                    inside[ticket] = size
                    self._used_size += size
                    return True
                if not wait:
                    return False
                room = threading.Lock()
                room.acquire()
                self._waiting.append(room)
            held = self._is_held()
            if not held and not acquire(room, until):
                with suppress(ValueError):  # it was woken just now
                    self._waiting.remove(room)
                return False

    def _is_held(self) -> bool:
        """Whether this thread already holds the lock: then this call has interrupted code that the lock guards."""
        try:
            self._owned.notify(0)
        except RuntimeError:
            return False
        return True

    def leave(self, ticket: object) -> None:
        """Give the room back."""
        with self._lock:
            size = self._inside.pop(ticket, None)
            if size is not None:
                self._give_back(size)

    def leave_all(self, tickets: Iterable[object]) -> None:
        """Give the room of many back at once."""
        with self._lock:
            inside = self._inside
            self._give_back(sum([inside.pop(ticket, 0) for ticket in tickets]))

    def _give_back(self, size: int) -> None:
        """Free this many bytes, and wake waiting threads. The caller holds the lock."""
        self._used_size = self._used_size - size if self._inside else 0
        if self._waiting and self._is_eased():
            self._wake_all()
        if self._until_empty:
            for empty, spared in tuple(self._until_empty):
                if len(self._inside) <= spared:
                    empty.set()

    def _is_eased(self) -> bool:
        return not self._inside or (len(self._inside) <= self._eased[0] and self._used_size <= self._eased[1])

    def _wake_all(self) -> None:
        with suppress(IndexError):  # a signal handler that leaves here may have woken the others
            while True:
                self._waiting.popleft().release()

    def tickets(self) -> list[object]:
        """The tickets that are inside."""
        return list(self._inside)

    def wait_empty(self, timeout: float | None, spared: int = 0) -> int:
        """Wait up to `timeout` seconds until at most `spared` are inside. Returns how many more remain."""
        until = None if timeout is None else monotonic() + timeout
        waiting = threading.Event(), spared
        self._until_empty.append(waiting)
        try:
            while len(self._inside) > spared and (until is None or until > monotonic()):
                wait(waiting[0], None if until is None else until - monotonic())
                waiting[0].clear()
        finally:
            self._until_empty.remove(waiting)
        return max(0, len(self._inside) - spared)

    def open(self) -> None:
        """Let sends through."""
        self._closed = False

    def close(self) -> None:
        """Refuse all waiting sends, and all later ones."""
        self._closed = True
        with self._lock:
            self._wake_all()


class Gates:
    """Several gates that are closed together, and are idle when all of them are empty."""

    def __init__(self, *gates: Gate) -> None:
        self._gates = gates

    def __len__(self) -> int:
        """How many are inside."""
        return sum(map(len, self._gates))

    def counts(self) -> tuple[int, ...]:
        """How many are inside, by gate."""
        return tuple(map(len, self._gates))

    def begun_by(self, thread: int) -> tuple[int, ...]:
        """How many messages this thread is handing over, by gate: its id is the `beginner` of their tickets."""
        return tuple(sum(getattr(each, "beginner", 0) == thread for each in gate.tickets()) for gate in self._gates)

    def more_than(self, spared: Sequence[int]) -> int:
        """How many more are inside than `spared` allows, which is a number for each gate."""
        return sum(max(0, len(gate) - count) for gate, count in zip(self._gates, spared, strict=True))

    def wait_empty(self, timeout: float | None, spared: Sequence[int]) -> int:
        """Wait up to `timeout` seconds until at most `spared` are inside, by gate. Returns how many more remain."""
        until = None if timeout is None else monotonic() + timeout
        while True:  # a callback may have entered the first gate during the wait for the second
            for gate, count in zip(self._gates, spared, strict=True):
                gate.wait_empty(None if until is None else until - monotonic(), count)
            more = self.more_than(spared)
            if not more or (until is not None and monotonic() >= until):
                return more

    def open(self) -> None:
        """Let everything through."""
        for gate in self._gates:
            gate.open()

    def close(self) -> None:
        """Refuse all waiting sends, and all later ones."""
        for gate in self._gates:
            gate.close()
