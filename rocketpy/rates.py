"""Rates: how much there was in the last minute, and in the last hour. Pure: times are the caller's.

Counting adds to the newest of a few buckets; nothing runs in the background, and what has become too old goes with the
next count or question. One thread counts, any thread may ask. Plays the part of StatsItem, whose service takes samples.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Rate", "Sum"]


class Sum(NamedTuple):
    """What there was in a stretch of time.

    Attributes:
        value: What was counted, added up.
        times: How often something was counted.
        seconds: How long the stretch is.
    """

    value: float
    times: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Of the value, a second."""
        return self.value / self.seconds

    @property
    def mean(self) -> float:
        """Of the value, each time; 0 when nothing was counted."""
        return self.value / self.times if self.times else 0.0


class _Window:
    """The last so many buckets, and the one that is being filled."""

    __slots__ = ("_born", "_buckets", "_ends", "_newest", "_number", "_width")

    def __init__(self, width: float, number: int, now: float) -> None:
        self._width = width
        self._number = number
        self._born = now
        self._buckets: list[list[float]] = []
        """Of each its number on the time line, the value and the times."""
        self._newest: list[float] = []
        """The last of them."""
        self._ends = -math.inf
        """When it ends."""

    def add(self, now: float, value: float, times: int) -> None:
        if now >= self._ends:
            self._begin(now)
        newest = self._newest
        newest[1] += value
        newest[2] += times

    def _begin(self, now: float) -> None:
        buckets, current = self._buckets, now // self._width
        self._ends = (current + 1) * self._width
        self._newest = [current, 0.0, 0]
        buckets.append(self._newest)
        while buckets[0][0] < current - self._number:
            del buckets[0]

    def sum(self, now: float) -> Sum:
        first = now // self._width - self._number
        kept = [bucket for bucket in tuple(self._buckets) if bucket[0] >= first]
        began = max(self._born, first * self._width)
        value, times = sum(bucket[1] for bucket in kept), int(sum(bucket[2] for bucket in kept))
        # Three messages in the first millisecond are not three thousand a second.
        return Sum(value, times, max(now - began, self._width))


class Rate:
    """What was counted lately. Its windows are those of Java: a minute in steps of 10 s, an hour in steps of 10 min.

    Args:
        now: the time, in seconds, on the clock that all other times are of.
    """

    __slots__ = ("_hour", "_minute")

    def __init__(self, now: float) -> None:
        self._minute = _Window(10.0, 6, now)
        self._hour = _Window(600.0, 6, now)

    def add(self, now: float, value: float, times: int = 1) -> None:
        """Count: `value` in all, for so many times at once."""
        self._minute.add(now, value, times)
        self._hour.add(now, value, times)

    def minute(self, now: float) -> Sum:
        """The last minute; up to ten seconds more."""
        return self._minute.sum(now)

    def hour(self, now: float) -> Sum:
        """The last hour; up to ten minutes more."""
        return self._hour.sum(now)
