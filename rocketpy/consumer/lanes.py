"""Lanes: the calls that wait, topic by topic, and how many workers each topic has.

A worker enters a lane, makes calls of it one after the other for a moment, leaves it, and enters the next one in turn.
So no topic waits behind the backlog of another. A topic may have every worker but a few, which are kept for topics that
have none: listeners of one topic that hang do not take the others' workers. Where order counts there is a lane for each
queue, and never more than one worker in it. Pure; code that shares one between threads holds a lock around everything
but `Lane.calls`, which any worker of the lane may pop at any time, and the flags that end a worker's turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.consumer.crew import Call

__all__ = ["Lane", "Lanes"]

_SHARE_KEPT = 4
"""One of so many workers is kept at most for topics that have none."""


_ALWAYS = float("inf")


class Lane:
    """The calls of one topic, or of one queue.

    Attributes:
        key: the topic; the queue where order counts.
        calls: what waits.
        workers: how many have entered.
        full: no other worker may enter as things are; a hint that saves looking.
        in_order: one worker at a time.
        until: no call begins from then on; a time of the clock of the lanes.
        closed: no call begins: one was no success, and it is not decided yet what follows; or the lane is given up.
        given_up: nothing of it is to be done any more.
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
        limit: workers at a time.
        clock: tells the time for lanes that end.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = float) -> None:
        self._limit = limit
        self._clock = clock
        self._extra = 0
        self._lanes: dict[Hashable, Lane] = {}
        self._turns: deque[Lane] = deque()
        self._entered = 0
        self._without = 0
        """Lanes that have no worker."""
        self._full: list[Lane] = []

    @property
    def limit(self) -> int:
        """How many workers there may be."""
        return self._limit + self._extra

    # --- changing -------------------------------------------------------------------------------------

    def allow(self, extra: int) -> None:
        """Let so many more workers in."""
        self._extra = extra
        self._changed()

    def share(self, topics: Collection[str]) -> None:
        """These are the topics that may get calls; each is to find a worker."""
        for topic in topics:
            self._lane(topic)
        for lane in list(self._turns):
            if lane.key not in topics and not lane.calls and not lane.workers:
                self._remove(lane)
        self._changed()

    def put(self, key: Hashable, calls: Iterable[Call]) -> Lane:
        """Let calls wait in their lane."""
        lane = self._lane(key)
        lane.calls.extend(calls)
        return lane

    def order(self, key: Hashable, until: float) -> None:
        """One worker at a time in this lane, and no call that would begin from `until` on."""
        lane = self._lane(key)
        lane.in_order = lane.full = True  # a worker in it need not call for others
        lane.until = until

    def again(self, key: Hashable, calls: list[Call]) -> None:
        """Open a lane that a call without success has closed, with these calls first."""
        lane = self._lanes.get(key)
        if lane is None or lane.given_up:
            return
        # One operation: while it is closed nobody pops, but the worker that closed it may be in it still.
        lane.calls.extendleft(reversed(calls))
        lane.closed = False

    def close(self, key: Hashable) -> bool:
        """Give a lane up. Returns whether no worker is in it; otherwise `leave` tells when the last one goes."""
        lane = self._lanes.get(key)
        if lane is None:
            return True
        lane.closed = lane.given_up = True
        lane.calls.clear()
        return self._is_over(lane)

    def _is_over(self, lane: Lane) -> bool:
        if not lane.given_up or lane.workers:
            return False
        self._remove(lane)
        self._changed()
        return True

    def _lane(self, key: Hashable) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
            self._turns.append(lane)
            self._without += 1
            self._changed()
        return lane

    def _remove(self, lane: Lane) -> None:
        del self._lanes[lane.key]
        self._turns.remove(lane)
        self._without -= 1

    # --- workers --------------------------------------------------------------------------------------

    def enter(self) -> Lane | None:
        """A lane for one more worker, in turn; None when there is nothing that it may do."""
        turns = self._turns
        for _ in range(len(turns)):
            lane = turns[0]
            turns.rotate(-1)
            if lane.calls and self.has_room(lane):
                self._without -= not lane.workers
                lane.workers += 1
                self._entered += 1
                self._changed()
                return lane
        return None

    def leave(self, lane: Lane) -> bool:
        """A worker goes. Returns whether that was the last one of a lane that was given up."""
        lane.workers -= 1
        self._without += not lane.workers
        self._entered -= 1
        self._changed()
        return self._is_over(lane)

    def is_waiting(self, besides: Lane | None = None) -> bool:
        """Whether another worker would find a lane."""
        return any(lane.calls and lane is not besides and self.has_room(lane) for lane in self._turns)

    def has_room(self, lane: Lane) -> bool:
        """Whether one more worker may enter."""
        free = self.limit - self._entered
        if lane.in_order:
            return free > 0 and not (lane.workers or lane.closed) and self._clock() < lane.until
        if lane.workers:
            kept = max(1, self._limit // _SHARE_KEPT) if self._limit > 1 else 0
            free -= min(kept, self._without)
        if free <= 0 and not lane.full:
            lane.full = True
            self._full.append(lane)
        return free > 0

    def _changed(self) -> None:
        """What was full may have room."""
        while self._full:
            self._full.pop().full = False
