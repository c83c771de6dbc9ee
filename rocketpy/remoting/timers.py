"""One task that wakes for many: deadlines of requests, frames and idle connections.

A cancel scope per call would cost a third of the call. Instead everybody who owns deadlines keeps them in a table of
his own and sets an alarm for the earliest one; the one task sleeps until an alarm is due and never wakes in between.
Plays the part of the HashedWheelTimer.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import trio

__all__ = ["Alarm", "Timers"]

Wake = Callable[[float], float]


def _never(_: float) -> float:
    return math.inf


class Timers:
    """The alarms of one pool or server. `run` is the task that rings them."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._scope: trio.CancelScope | None = None

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Ring alarms as they come due, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._heap[0][0] if self._heap else math.inf) as self._scope:
                await trio.Event().wait()  # which nobody sets: the scope ends it
            self._ring(trio.current_time())

    def add(self, when: float, alarm: Alarm) -> None:
        """Put an entry for `alarm` into the heap; an older, later entry of it is skipped when it comes up."""
        heapq.heappush(self._heap, (when, next(self._order), alarm))
        if self._scope is not None and when < self._scope.deadline:
            self._scope.deadline = when

    def _ring(self, now: float) -> None:
        heap = self._heap
        due: list[Alarm] = []
        while heap and heap[0][0] <= now:
            when, _, alarm = heapq.heappop(heap)
            if alarm.when == when:
                alarm.when = math.inf
                due.append(alarm)
        for alarm in due:
            alarm.set(alarm.wake(now))


class Alarm:
    """One owner's alarm.

    `wake` is called with the time when the alarm rings, and returns when it shall ring next, or infinity. It is a
    plain function and must not raise.
    """

    __slots__ = ("timers", "wake", "when")

    def __init__(self, timers: Timers, wake: Wake) -> None:
        self.timers = timers
        self.wake = wake
        self.when = math.inf

    def set(self, when: float) -> None:
        """Ring at `when` unless it rings earlier anyway."""
        if when < self.when:
            self.when = when
            self.timers.add(when, self)

    def cancel(self) -> None:
        """Never ring again. Entries that are left in the heap hold on to nothing."""
        self.when = math.nan
        self.wake = _never
