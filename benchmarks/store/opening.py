"""Opening a large store after a clean stop, and the memory of the broker that serves it.

The time runs from the start of the process to the line that says that it serves; the pages of the last file are
dropped before, so that they come from the disk. Then the broker is sent to and pulled from, and its memory is taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import OURS
from benchmarks.budget import Budget
from benchmarks.frames import Wire, pull_frame, send_frame, split
from benchmarks.measure import Row
from benchmarks.processes import rss_megabytes
from benchmarks.store.big_store import QUEUES, TOPIC, BigStore, build
from benchmarks.store.brokers import Broker, ours
from benchmarks.store.measure import Bench, Sample, StoreMeasure, directory
from benchmarks.store.senders import concurrent
from benchmarks.task import LARGE_BODY, WINDOW, Outcome

PULLS = 300
FOUND = 0

ROWS = (
    Row("store-start-empty", "broker process to serving, empty store", "s", kind="store"),
    Row("store-open", "broker process to serving, 10 GiB", "s", kind="store"),
    Row("store-rss-anon", "memory of its own, 10 GiB, after work", "MB", kind="store"),
    Row("store-close", "SIGTERM to gone, 10 GiB", "s", kind="store"),
)


def take(bench: Bench) -> Iterator[Sample]:
    """Build, open and close once, then measure what follows."""
    with directory() as place:
        with ours(place / "empty") as broker:
            yield "store-start-empty", OURS, Outcome(_age(broker), 1)
        bench.say("building the store")
        home = place / "big"
        build(home / "store", bench.scale.big)
        settings = {"mappedFileSizeCommitLog": bench.scale.big.file_size}
        with ours(home, settings) as broker:
            _stop(broker)
        drop_pages(home / "store")
        bench.say("opening it")
        with ours(home, settings) as broker:
            yield "store-open", OURS, Outcome(_age(broker), bench.scale.big.messages)
            _work(broker, bench.scale.big, bench.scale.seconds)
            memory = rss_megabytes(broker.pid, "RssAnon")
            if memory is not None:
                yield "store-rss-anon", OURS, Outcome(memory, 1)
            yield "store-close", OURS, Outcome(_stop(broker), 1)


def drop_pages(store: Path) -> None:
    """Let the files of a store be read from the disk again, as far as no process has mapped them."""
    for path in (*store.glob("commitlog/*"), *store.glob("consumequeue/*/*/*")):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _age(broker: Broker) -> float:
    """Of the process, when it said that it serves."""
    assert broker.serves_after is not None, "it is ours"
    return broker.serves_after


def _stop(broker: Broker) -> float:
    assert broker.child is not None, "it is ours"
    return broker.child.stop(120.0)


def _work(broker: Broker, big: BigStore, seconds: float) -> None:
    """Send, and read of each queue what is real."""
    frames = [send_frame(TOPIC, queue, LARGE_BODY) for queue in range(QUEUES)]
    concurrent(broker.address, frames, Budget(seconds, 100_000), broker.pid, window=WINDOW)
    with Wire(broker.address) as wire:
        for queue in range(QUEUES):
            offset = (big.files - 1) * big.a_file // QUEUES + 1
            for _ in range(PULLS // QUEUES):
                wire.socket.sendall(pull_frame("bench_open", TOPIC, queue, offset))
                header, _ = split(wire.read()[0])
                if header["code"] != FOUND:
                    break
                offset = int(header["extFields"]["nextBeginOffset"])


MEASURE = StoreMeasure("store-open", ROWS, take)
