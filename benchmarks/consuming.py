"""What belongs to consuming and is no worker's: pulls that our broker holds, and what filters cost the store.

Both are measured elsewhere too. Here they need nothing of the servers that the group is measured on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import holding
from benchmarks.measure import Ground, Measure
from benchmarks.servers import OURS
from benchmarks.store import filters
from benchmarks.store.measure import Bench, Scale

if TYPE_CHECKING:
    from benchmarks.task import Outcome


def _held(ground: Ground) -> Mapping[str, Outcome]:
    """On a pair of our own, which holds no messages."""
    with OURS.run() as site:
        return holding.measure(replace(ground, make=OURS, site=site))


def _filtered(ground: Ground) -> Mapping[str, Outcome]:
    """As among the figures of the store."""
    scale = Scale()
    scale = replace(scale, records=min(scale.records, ground.size.filled))
    bench = Bench(scale, None, lambda word: None, lambda timeline: None)
    return {row: outcome for row, _, outcome in filters.take(bench)}


HELD = Measure((holding.ROW,), _held, brings=OURS)
FILTERED = Measure(filters.ROWS, _filtered, alone=True)
