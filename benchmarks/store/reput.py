"""Dispatch: whether what is derived from the log (queues, and the index of keys) keeps up with what is appended.

Putting with writing and dispatching are timed apart, turn by turn, on messages that each have a key of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.bars import ALONE
from benchmarks.measure import Row
from benchmarks.store.append import keyed, open_store
from benchmarks.store.measure import Bench, Sample, StoreMeasure, directory
from benchmarks.task import WINDOW, Outcome

ROWS = (
    Row("store-put", "put and commit, each with a key", "/s", kind="store"),
    Row("store-reput", "dispatch of the same", "/s", "store-put", "store"),
)


def take(bench: Bench) -> Iterator[Sample]:
    """Turns of 64 messages, each dispatched before the next."""
    turns = max(1, bench.scale.records // WINDOW)
    putting = reputting = 0.0
    most_behind = 0
    with directory() as place:
        store = open_store(place)
        for number in range(turns):
            messages = keyed(number * WINDOW)
            began = time.perf_counter()
            for message in messages:
                store.put(message)
            store.commit_pending()
            written = time.perf_counter()
            store.reput()
            reputting += time.perf_counter() - written
            putting += written - began
            most_behind = max(most_behind, store.dispatch_behind)
        store.close()
    count = turns * WINDOW
    yield "store-put", ALONE, Outcome(count / putting, count)
    yield "store-reput", ALONE, Outcome(count / reputting, count, notes={"behind_bytes": most_behind})


MEASURE = StoreMeasure("store-reput", ROWS, take, turns=3)
