"""Percentiles of the times that single sends took."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least of the ordered values that so large a share of them does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(times: Sequence[float]) -> dict[str, float]:
    """The middle and the tail of times in seconds, as notes of a sample; none of no times."""
    if not times:
        return {}
    ordered = sorted(times)
    return {"p50_us": percentile(ordered, 0.50) * 1e6, "p99_us": percentile(ordered, 0.99) * 1e6}
