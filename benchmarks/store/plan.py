"""What is measured of the store, and what its names stand for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from benchmarks.store import append, backlog, filters, group_commit, opening, restart, steady, topics, transfer
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.store.measure import StoreMeasure

EVERYTHING = "store"
MEASURES: tuple[StoreMeasure, ...] = (
    append.MEASURE,
    group_commit.MEASURE,
    steady.MEASURE,
    opening.MEASURE,
    restart.MEASURE,
    topics.MEASURE,
    backlog.MEASURE,
    transfer.MEASURE,
    filters.MEASURE,
)


def is_asked_for(names: Iterable[str]) -> bool:
    """Whether one of the names on the command line is of the store."""
    return any(name == EVERYTHING or name.startswith(f"{EVERYTHING}-") for name in names)


def chosen(names: Sequence[str]) -> list[StoreMeasure]:
    """All measures, or those that are named by their own name or that of a row.

    Raises:
        BenchmarkError: one of the names is none.
    """
    known = {name for measure in MEASURES for name in (measure.name, *(row.name for row in measure.rows))}
    unknown = set(names) - known - {EVERYTHING}
    if unknown:
        ours = ", ".join(measure.name for measure in MEASURES)
        raise BenchmarkError(
            f"nothing of the store is called {', '.join(sorted(unknown))}; there are: {EVERYTHING}, {ours}"
        )
    if EVERYTHING in names:
        return list(MEASURES)
    return [m for m in MEASURES if m.name in names or any(row.name in names for row in m.rows)]
