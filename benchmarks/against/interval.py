"""The interval of a median: order statistics, which ask nothing of how values are spread, nor for chance.

Between the k-th least and the k-th greatest of n values lies the median of what they were drawn from, with a
probability that is binomial. It jumps from k to k; Hettmansperger and Sheather interpolate between two neighbours so
that the interval has the level that was asked for (Statistics & Probability Letters 4, 1986, 75-79).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

LEVEL = 0.90


def coverage(count: int, rank: int) -> float:
    """How probable it is that the median lies between the value of a rank, from 1, and its counterpart from above."""
    return 1.0 - 2.0 * sum(comb(count, below) for below in range(rank)) / 2.0**count


def least_count(level: float = LEVEL) -> int:
    """Fewer values than these have no such interval."""
    count = 1
    while coverage(count, 1) < level:
        count += 1
    return count


def interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Where the median of what the values were drawn from lies.

    Raises:
        ValueError: there are too few of them.
    """
    count, ordered = len(values), sorted(values)
    if count < least_count(level):
        raise ValueError(f"{count} values have no interval of {level:.0%}; it takes {least_count(level)}")
    rank = next(rank for rank in range(1, count) if coverage(count, rank + 1) < level)
    wide, narrow = coverage(count, rank), coverage(count, rank + 1)
    part = (wide - level) / (wide - narrow)
    inner = (count - rank) * part / (rank + (count - 2 * rank) * part)
    low = (1 - inner) * ordered[rank - 1] + inner * ordered[rank]
    high = (1 - inner) * ordered[count - rank] + inner * ordered[count - rank - 1]
    return low, high
