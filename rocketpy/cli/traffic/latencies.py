"""Percentiles of all durations of a run: each at most 1 % too high, in memory that does not grow with their number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

__all__ = ["Latencies"]

_LEAST = 1e-6
"""Seconds up to which durations count as equal."""
_STEP = math.log(1.01)


class Latencies:
    """Durations of one kind, in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.longest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration, once or several times."""
        self._buckets[math.ceil(math.log(max(seconds, _LEAST) / _LEAST) / _STEP)] += times
        self.count += times
        self.total += seconds * times
        self.longest = max(self.longest, seconds)

    def merge(self, other: Latencies) -> None:
        """Count all durations of another one too."""
        self._buckets.update(other._buckets)
        self.count += other.count
        self.total += other.total
        self.longest = max(self.longest, other.longest)

    @property
    def mean(self) -> float:
        """The mean; 0 if there are none."""
        return self.total / self.count if self.count else 0.0

    def percentiles(self, shares: Sequence[float]) -> list[float]:
        """For each share, in rising order, the duration that it does not exceed; 0 if there are none."""
        found, seen = [], 0
        buckets = iter(sorted(self._buckets))
        bucket = 0
        for share in shares:
            while seen < share * self.count:
                bucket = next(buckets)
                seen += self._buckets[bucket]
            found.append(min(self.longest, _LEAST * math.exp(bucket * _STEP)) if self.count else 0.0)
        return found
