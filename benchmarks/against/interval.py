"""The interval of a median, from order statistics: it assumes no distribution, and uses no random numbers.

The median of a distribution lies between the k-th smallest and the k-th largest of n samples with a probability that
follows from the binomial distribution. This probability changes in steps with k. Hettmansperger and Sheather
interpolate between two neighbouring k, so that the interval has the required level
(Statistics & Probability Letters 4, 1986, 75-79).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

LEVEL = 0.90


def coverage(count: int, rank: int) -> float:
    """Return the probability that the median lies between the values of a rank, from 1, from below and from above."""
    return 1.0 - 2.0 * sum(comb(count, below) for below in range(rank)) / 2.0**count


def least_count(level: float = LEVEL) -> int:
    """Return the smallest number of values that has such an interval."""
    count = 1
    while coverage(count, 1) < level:
        count += 1
    return count


def interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """Return the interval that contains the median of the distribution of the values.

    Raises:
        ValueError: there are too few values.
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
