"""Latencies: percentiles of recent durations. Pure: the caller passes the time.

Durations are counted in buckets with fixed bounds, each 9 % above the last, for each ten seconds of the last minute. So
the memory does not grow with the number of durations, and a percentile is at most 9 % too high. One thread counts, any
thread may read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs

from rocketpy.reprs import Short

__all__ = ["Histogram", "Latency", "latency_of"]

_LEAST = 1e-5
"""Seconds up to which durations are in the first bucket."""
_PER_DOUBLING = 8
_BOUNDS = tuple(_LEAST * 2.0 ** (number / _PER_DOUBLING) for number in range(_PER_DOUBLING * 27))
"""The highest duration in each bucket but the last one: from 10 µs to 20 minutes."""
_SLICE = 10.0
"""Seconds counted together."""
_SLICES = 6
"""How many slices are looked at, beside the one that is being filled."""


@attrs.frozen(kw_only=True, repr=False)
class Latency(Short):
    """Latencies of the last minute, or up to ten seconds more. All durations are in seconds."""

    count: int = 0
    """The number of durations. If it is 0, all other fields are 0."""
    mean: float = 0.0
    """The mean."""
    p50: float = 0.0
    """The median. It and the other percentiles are at most 9 % too high."""
    p90: float = 0.0
    """The 90th percentile."""
    p99: float = 0.0
    """The 99th percentile."""
    maximum: float = 0.0
    """The longest duration."""


class _Slice:
    __slots__ = ("buckets", "count", "longest", "number", "seconds")

    def __init__(self, number: float) -> None:
        self.number = number
        self.count = 0
        self.seconds = 0.0
        self.longest = 0.0
        self.buckets: Counter[int] = Counter()


class Histogram:
    """The durations of one kind that were measured lately."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: list[_Slice] = []

    def add(self, now: float, durations: Sequence[float]) -> None:
        """Count durations, in seconds, that were measured by `now`."""
        if durations:
            ordered = sorted(durations)
            self._count(now, _counted(ordered), len(ordered), sum(ordered), ordered[-1])

    def _count(self, now: float, buckets: Mapping[int, int], count: int, seconds: float, longest: float) -> None:
        number = now // _SLICE
        slices = self._slices
        if slices and slices[-1].number >= number:
            found = slices[-1]
        else:
            found = _Slice(number)
            slices.append(found)
            while slices[0].number < number - _SLICES:
                del slices[0]
        for bucket, times in buckets.items():
            found.buckets[bucket] += times
        found.count += count
        found.seconds += seconds
        found.longest = max(found.longest, longest)

    def add_equal(self, now: float, duration: float, times: int) -> None:
        """Count a duration, in seconds, so many times."""
        self._count(now, {bisect_left(_BOUNDS, duration): times}, times, duration * times, duration)

    def latency(self, now: float) -> Latency:
        """What was measured in the last minute. Thread-safe."""
        return latency_of((self,), now)

    def recent(self, now: float) -> list[_Slice]:
        """What is young enough to be looked at."""
        first = now // _SLICE - _SLICES
        return [each for each in tuple(self._slices) if each.number >= first]


def _counted(ordered: Sequence[float]) -> dict[int, int]:
    """How many of these durations are in each bucket: a step for each bucket, which are few, and not for each one."""
    found, at = {}, 0
    while at < len(ordered):
        bucket = bisect_left(_BOUNDS, ordered[at])
        end = bisect_right(ordered, _BOUNDS[bucket], at) if bucket < len(_BOUNDS) else len(ordered)
        found[bucket] = end - at
        at = end
    return found


def latency_of(histograms: Iterable[Histogram], now: float) -> Latency:
    """What was measured in the last minute by all of these together. Thread-safe."""
    slices = [each for histogram in histograms for each in histogram.recent(now)]
    buckets: Counter[int] = Counter()
    for each in slices:
        buckets.update(dict(each.buckets))  # a copy in one step: somebody may be counting
    count = sum(buckets.values())
    if not count:
        return Latency()
    longest = max(each.longest for each in slices)
    p50, p90, p99 = (_percentile(buckets, count, share, longest) for share in (0.5, 0.9, 0.99))
    mean = sum(each.seconds for each in slices) / max(1, sum(each.count for each in slices))
    return Latency(count=count, mean=mean, p50=p50, p90=p90, p99=p99, maximum=longest)


def _percentile(buckets: Counter[int], count: int, share: float, longest: float) -> float:
    """The duration that this share of them does not exceed."""
    wanted, seen = share * count, 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return min(longest, _BOUNDS[bucket]) if bucket < len(_BOUNDS) else longest
    return longest
