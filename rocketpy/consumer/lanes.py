"""Lanes: the calls that wait, topic by topic, and how many workers each topic has.

A worker enters a lane, makes calls of it one after the other for a moment, leaves it, and enters the next one in turn.
So no topic waits behind the backlog of another. A topic may have every worker but a few, which are kept for topics that
have none: listeners of one topic that hang do not take the others' workers. Pure; code that shares one between threads
holds a lock around everything but `Lane.calls`, which any worker of the lane may pop at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.consumer.runners import Call

__all__ = ["Lane", "Lanes"]

_SHARE_KEPT = 4
"""One of so many workers is kept at most for topics that have none."""


class Lane:
    """The calls of one topic.

    Attributes:
        topic: the topic.
        calls: what waits.
        workers: how many have entered.
        full: no other worker may enter as things are; a hint that saves looking.
    """

    __slots__ = ("calls", "full", "topic", "workers")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.calls: deque[Call] = deque()
        self.workers = 0
        self.full = False


class Lanes:
    """The lanes of one runner.

    Args:
        limit: workers at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._extra = 0
        self._lanes: dict[str, Lane] = {}
        self._turns: deque[Lane] = deque()
        self._entered = 0
        self._without = 0
        """Topics that have no worker."""
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
            if lane.topic not in topics and not lane.calls and not lane.workers:
                del self._lanes[lane.topic]
                self._turns.remove(lane)
                self._without -= 1
        self._changed()

    def put(self, topic: str, calls: Iterable[Call]) -> Lane:
        """Let calls wait in the lane of their topic."""
        lane = self._lane(topic)
        lane.calls.extend(calls)
        return lane

    def _lane(self, topic: str) -> Lane:
        lane = self._lanes.get(topic)
        if lane is None:
            lane = self._lanes[topic] = Lane(topic)
            self._turns.append(lane)
            self._without += 1
            self._changed()
        return lane

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

    def leave(self, lane: Lane) -> None:
        """A worker goes."""
        lane.workers -= 1
        self._without += not lane.workers
        self._entered -= 1
        self._changed()

    def is_waiting(self, besides: Lane | None = None) -> bool:
        """Whether another worker would find a lane."""
        return any(lane.calls and lane is not besides and self.has_room(lane) for lane in self._turns)

    def has_room(self, lane: Lane) -> bool:
        """Whether one more worker may enter."""
        free = self.limit - self._entered
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
