"""Restart after a kill: the log is written, nothing was flushed or noted, the mark of a running broker is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import OURS
from benchmarks.measure import Row
from benchmarks.store.append import one_batch, open_store
from benchmarks.store.brokers import ours
from benchmarks.store.measure import Bench, Sample, StoreMeasure, directory
from benchmarks.task import BATCH, Outcome

MEBIBYTE = 1 << 20

ROWS = (
    Row("store-restart-64m", "killed with 64 MiB of log, process to serving", "s", kind="store"),
    Row("store-restart-1g", "killed with 1 GiB of log, process to serving", "s", kind="store"),
    Row("store-recovery", "recovery of 1 GiB", "MB/s", kind="store"),
)


def take(bench: Bench) -> Iterator[Sample]:
    """A small log and a large one."""
    for name, size in (("64m", bench.scale.small_log), ("1g", bench.scale.large_log)):
        with directory() as place:
            bench.say(f"writing {size >> 20} MiB")
            messages = _fill(place / "store", size)
            bench.say(f"recovering {size >> 20} MiB")
            with ours(place) as broker:
                assert broker.serves_after is not None, "it is ours"
                yield f"store-restart-{name}", OURS, Outcome(broker.serves_after, messages)
                if name == "1g":
                    yield "store-recovery", OURS, Outcome(size / 1e6 / broker.serves_after, messages)


def _fill(place: Path, size: int) -> int:
    """Put batches until the log has its size, then leave it as a killed process would; how many messages."""
    store = open_store(place)
    count = 0
    while store.written_position < size:
        for batch in one_batch(count):
            store.put_batch(batch)
        store.commit_pending()
        store.reput()
        count += BATCH
    store.abandon()
    return count


MEASURE = StoreMeasure("store-restart", ROWS, take)
