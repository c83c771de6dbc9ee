"""Who may send for a sharding key now: the sends of one key go one after the other, in the order of the calls.

A send takes the lane of its key when it is called, and passes it on when it has ended; the next one begins then. Only
so is the order kept over retries, over a route that must be looked up first, and over connections of several threads.
A send that waits is an entry in a queue: it costs no task. Thread-safe, and from a signal handler or a
finalizer that comes in between on the same thread. Plays the part of no class of Java's, which keeps no order there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

__all__ = ["Key", "KeyOrder", "KeyWaiter"]

Key: TypeAlias = tuple[str, str]
"""Topic and sharding key."""

_MAX_DEPTH: Final = 16
"""Sends that may begin within the end of another one: each may fail at once and let the next one begin."""


class KeyWaiter:
    """A send that waits for its sharding key.

    Attributes:
        key: what it waits for.
        owner: stands for the send, None if that needs nothing to stand for it.
    """

    __slots__ = ("_begin", "key", "owner")

    def __init__(self, key: Key, begin: Callable[[], object], owner: object = None) -> None:
        self.key = key
        self.owner = owner
        self._begin: Callable[[], object] | None = begin

    @property
    def waits(self) -> bool:
        """Whether it has neither come nor been given up."""
        return self._begin is not None

    def claim(self) -> Callable[[], object] | None:
        """What begins the send, to one caller only; under the lock of its order."""
        begin, self._begin = self._begin, None
        return begin


class _Lane(deque[KeyWaiter]):
    """The sends that wait for the one that has the lane, whose owner is known from the moment that it has the lane."""

    __slots__ = ("owner",)

    def __init__(self, owner: object) -> None:
        super().__init__()
        self.owner = owner


class _Starting(threading.local):
    """What begins on this thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.later: deque[Callable[[], object]] = deque()


class KeyOrder:
    """The lanes of one producer. A lane is there while somebody sends in it."""

    def __init__(self) -> None:
        # Reentrant: a handler may come in while its own thread is here. Each step below leaves the table sound, and
        # what another step may have changed meanwhile is looked at again.
        self._lock = threading.RLock()
        self._lanes: dict[Key, _Lane] = {}
        self._starting = _Starting()

    def __len__(self) -> int:
        """How many keys are being sent for."""
        return len(self._lanes)

    def owner(self, key: Key) -> object:
        """What stands for the send that has the lane of a key; None if nothing does, or nobody sends in it."""
        lane = self._lanes.get(key)
        return None if lane is None else lane.owner

    def try_take(self, key: Key, owner: object = None) -> bool:
        """Take the lane of a key if nobody sends in it; whether the lane is the caller's now, to pass on.

        Args:
            key: topic and sharding key.
            owner: stands for the send, if `release` is to end it.
        """
        fresh = _Lane(owner)
        with self._lock:
            return self._lanes.setdefault(key, fresh) is fresh

    def take(self, key: Key, begin: Callable[[], object], owner: object = None) -> KeyWaiter | None:
        """Take the lane of a key, or queue for it. Any thread; never waits.

        Args:
            key: topic and sharding key.
            begin: called once when the turn has come, on the thread that passes it on, perhaps before this returns;
                plain, and must not raise.
            owner: stands for the send, if `release` is to end it.

        Returns:
            None when the lane is the caller's now. Else what waits for it, which `leave` gives up. The
            holder of the lane calls `pass_on` once.
        """
        fresh = _Lane(owner)
        with self._lock:
            lane = self._lanes.setdefault(key, fresh)
            if lane is fresh:
                return None
            waiter = KeyWaiter(key, begin, owner)
            while True:
                lane.append(waiter)
                if self._lanes.get(key) is lane or not waiter.waits:
                    return waiter
                # Somebody came in between on this thread, and the lane has gone.
                lane = self._lanes.setdefault(key, fresh)
                if lane is fresh:
                    waiter.claim()
                    return None

    def leave(self, waiter: KeyWaiter) -> bool:
        """Give up waiting. False when the turn has come: the lane is the caller's then, to pass on."""
        with self._lock:
            return waiter.claim() is not None

    def pass_on(self, key: Key) -> None:
        """A send has ended: let the next one of its key begin. Any thread; called by the holder of the lane."""
        begin = self._next(key)
        if begin is not None:
            self._start(begin)

    def release(self, key: Key, owner: object) -> None:
        """Pass the lane on if it is this owner's, and give up its turn if that has not come. Idempotent.

        So a thread may end its send without knowing how far that got: what a signal handler raises may strike between
        any two steps, also when the lane has just become its own.
        """
        with self._lock:
            lane = self._lanes.get(key)
            if lane is None:
                return
            if lane.owner is not owner:
                for waiter in tuple(lane):
                    if waiter.owner is owner:
                        waiter.claim()
                return
        self.pass_on(key)

    def _next(self, key: Key) -> Callable[[], object] | None:
        with self._lock:
            lane = self._lanes[key]
            while True:
                while lane:
                    waiter = lane.popleft()
                    begin = waiter.claim()
                    if begin is not None:
                        lane.owner = waiter.owner
                        return begin
                del self._lanes[key]
                if not lane:
                    return None
                # Somebody queued in between on this thread.
                other = self._lanes.setdefault(key, lane)
                if other is not lane:
                    other.extend(lane)
                    return None

    def _start(self, begin: Callable[[], object]) -> None:
        """Begin a send. Those of a long queue that fail at once do not pile up on the stack."""
        starting = self._starting
        if starting.depth >= _MAX_DEPTH:
            starting.later.append(begin)
            return
        starting.depth += 1
        try:
            begin()
            while starting.depth == 1 and starting.later:
                starting.later.popleft()()
        finally:
            starting.depth -= 1
