"""Lanes: the waiting calls of each topic, and how many workers each topic has.

A worker enters a lane, makes some of its calls one by one, leaves it, and enters the next lane in turn. So no topic
waits behind the backlog of another. A topic may have all workers but a few, which are kept for topics that have none,
so that listeners of one topic that hang do not take the workers of all others. In an orderly consumer, each queue has a
lane, with at most one worker in it. Pure; code that shares lanes between threads holds a lock for everything but
`Lane.calls`, which any worker of the lane may pop at any time, and the flags that end a worker's turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.consumer.calls import Call

__all__ = ["Lane", "Lanes"]

_SHARE_KEPT = 4
"""At most one in this many workers is kept for topics that have none."""


_ALWAYS = float("inf")


class Lane:
    """The calls of one topic, or of one queue.

    Attributes:
        key: the topic; in an orderly consumer, the queue.
        calls: the calls that wait.
        workers: how many workers are in it.
        full: no other worker may enter for now; a hint that saves taking the lock.
        in_order: whether only one worker at a time may enter.
        until: no call starts from then on; a time of the lanes' clock.
        closed: no call starts, because one was unsuccessful and the service has not decided what follows, or because
            the lane was given up.
        given_up: the lane is removed when its last worker leaves.
    """

    __slots__ = ("calls", "closed", "full", "given_up", "in_order", "key", "until", "workers")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.calls: deque[Call] = deque()
        self.workers = 0
        self.full = False
        self.in_order = False
        self.until = _ALWAYS
        self.closed = False
        self.given_up = False


class Lanes:
    """The lanes of one crew.

    Args:
        limit: how many workers there may be.
        clock: the time in seconds, for `Lane.until`.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = float) -> None:
        self._limit = limit
        self._clock = clock
        self._extra = 0
        self._lanes: dict[Hashable, Lane] = {}
        self._rotation: deque[Lane] = deque()
        self._entered = 0
        self._idle_lanes = 0
        """How many lanes have no worker."""
        self._full: list[Lane] = []

    @property
    def limit(self) -> int:
        """How many workers there may be."""
        return self._limit + self._extra

    # --- changing -------------------------------------------------------------------------------------

    def allow(self, extra: int) -> None:
        """Let `extra` workers more than the limit in."""
        self._extra = extra
        self._changed()

    def share(self, topics: Collection[str]) -> None:
        """Set the topics that may get calls, so that workers are kept for each of them."""
        for topic in topics:
            self._lane(topic)
        for lane in list(self._rotation):
            if lane.key not in topics and not lane.calls and not lane.workers:
                self._remove(lane)
        self._changed()

    def put(self, key: Hashable, calls: Iterable[Call]) -> Lane:
        """Append calls to a lane, which is made if it is missing."""
        lane = self._lane(key)
        lane.calls.extend(calls)
        return lane

    def order(self, key: Hashable, until: float) -> None:
        """Let one worker at a time into this lane, and start no call after `until`."""
        lane = self._lane(key)
        lane.in_order = lane.full = True  # a worker in it need not wake others
        lane.until = until

    def again(self, key: Hashable, calls: list[Call]) -> None:
        """Open a lane that an unsuccessful call has closed, with these calls first."""
        lane = self._lanes.get(key)
        if lane is None or lane.given_up:
            return
        # In one operation: nobody pops from a closed lane, but the worker that closed it may still be in it.
        lane.calls.extendleft(reversed(calls))
        lane.closed = False

    def close(self, key: Hashable) -> bool:
        """Give a lane up. Returns whether no worker is in it; otherwise `leave` returns True for the last one."""
        lane = self._lanes.get(key)
        if lane is None:
            return True
        lane.closed = lane.given_up = True
        lane.calls.clear()
        return self._remove_if_left(lane)

    def _remove_if_left(self, lane: Lane) -> bool:
        if not lane.given_up or lane.workers:
            return False
        self._remove(lane)
        self._changed()
        return True

    def _lane(self, key: Hashable) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
            self._rotation.append(lane)
            self._idle_lanes += 1
            self._changed()
        return lane

    def _remove(self, lane: Lane) -> None:
        del self._lanes[lane.key]
        self._rotation.remove(lane)
        self._idle_lanes -= 1

    # --- workers --------------------------------------------------------------------------------------

    def enter(self) -> Lane | None:
        """Let one more worker into the next lane that has calls; None if there is no such lane."""
        rotation = self._rotation
        for _ in range(len(rotation)):
            lane = rotation[0]
            rotation.rotate(-1)
            if lane.calls and self.has_room(lane):
                self._idle_lanes -= not lane.workers
                lane.workers += 1
                self._entered += 1
                self._changed()
                return lane
        return None

    def leave(self, lane: Lane) -> bool:
        """Let a worker out of a lane. Returns whether it was the last one in a lane that was given up."""
        lane.workers -= 1
        self._idle_lanes += not lane.workers
        self._entered -= 1
        self._changed()
        return self._remove_if_left(lane)

    def is_waiting(self, besides: Lane | None = None) -> bool:
        """Whether another worker would find a lane to enter, other than `besides`."""
        return any(lane.calls and lane is not besides and self.has_room(lane) for lane in self._rotation)

    def has_room(self, lane: Lane) -> bool:
        """Whether one more worker may enter a lane."""
        free = self.limit - self._entered
        if lane.in_order:
            return free > 0 and not (lane.workers or lane.closed) and self._clock() < lane.until
        if lane.workers:
            kept = max(1, self.limit // _SHARE_KEPT) if self.limit > 1 else 0
            free -= min(kept, self._idle_lanes)
        if free <= 0 and not lane.full:
            lane.full = True
            self._full.append(lane)
        return free > 0

    def _changed(self) -> None:
        """Lanes that were full may have room now."""
        while self._full:
            self._full.pop().full = False
