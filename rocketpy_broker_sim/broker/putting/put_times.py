"""PutTimes: how long puts took, as tools show it: counts by span of time, the longest, and percentiles.

Counts are kept by the minute, and those of the minute before are told; minutes turn when somebody counts or asks.
Plays the part of the put times in StoreStatsService.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

__all__ = ["PutTimes"]

MINUTE = 60.0
_SPANS = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
_SPAN_ENDS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
"""Where each span but the last ends, in whole milliseconds."""
_STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
"""Width in milliseconds and number of the buckets behind the percentiles, one row after the other."""
_BUCKETS = tuple(accumulate(width for width, count in _STEPS for _ in range(count)))


class _MinuteTimes:
    """Of one minute."""

    def __init__(self) -> None:
        self.spans = [0] * len(_SPANS)
        self.buckets = [0] * (len(_BUCKETS) + 1)


class PutTimes:
    """Of one broker.

    Args:
        clock: the loop's clock, in seconds.

    Attributes:
        longest: Milliseconds of the put that took longest.
        latest: Seconds of the last one.
        failed: Puts that were refused by the disk.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now, self._before = _MinuteTimes(), _MinuteTimes()
        self._ends = -math.inf
        self.longest = 0
        self.latest = 0.0
        self.failed = 0

    def note(self, count: int, seconds: float) -> None:
        """So many puts took so long."""
        if self._clock() >= self._ends:
            self._next_minute()
        self.latest = seconds
        millis = int(seconds * 1000)
        if not millis:  # most puts of all
            self._now.spans[0] += count
            self._now.buckets[0] += count
            return
        self._now.spans[bisect_right(_SPAN_ENDS, millis)] += count
        self._now.buckets[bisect_left(_BUCKETS, millis)] += count
        self.longest = max(self.longest, millis)

    def distribution(self) -> str:
        """The counts of the last full minute, as Java writes them."""
        self._next_minute()
        return "".join(f"{name}:{count} " for name, count in zip(_SPANS, self._before.spans, strict=True))

    def percentile(self, share: float) -> float:
        """Milliseconds within which that share of the puts of the last full minute was done; 0 without any."""
        self._next_minute()
        counts = self._before.buckets
        wanted = share * sum(counts)
        if not wanted:
            return 0.0
        index = bisect_left(list(accumulate(counts)), wanted)
        return float(_BUCKETS[min(index, len(_BUCKETS) - 1)])

    def _next_minute(self) -> None:
        """Begin a new minute when this one is over."""
        now = self._clock()
        if now >= self._ends:
            if self._ends > -math.inf:
                idle = now >= self._ends + MINUTE
                self._before, self._now = _MinuteTimes() if idle else self._now, _MinuteTimes()
            self._ends = now + MINUTE
