"""What a measure of the store is: its rows, what it stands on, how much it does."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.store.big_store import BigStore
from benchmarks.task import Outcome

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.store.timeline import Timeline
    from tests.interop.apache import Apache

TOPIC = "BenchStore"
QUEUES = 4


@dataclass(frozen=True)
class Scale:
    """How much is done for one figure.

    Attributes:
        records: Appended to a store alone, and written by the bare loop beside it.
        seconds: How long one sample of a broker takes.
        warm_seconds: How long a broker is driven before anything is measured; a JVM needs it.
        steady_seconds: How long messages are sent at a steady rate, to each broker.
        most_topics: Larger numbers of topics are left out.
        big: The store that is opened.
        small_log: Bytes of log that a killed broker leaves.
        large_log: The same, more of them.
        backlog: Messages that wait for a reader.
        backlog_topics: What they are spread over.
    """

    records: int = 100_000
    seconds: float = 3.0
    warm_seconds: float = 4.0
    steady_seconds: float = 60.0
    most_topics: int = 10_000
    big: BigStore = field(default_factory=BigStore)
    small_log: int = 64 << 20
    large_log: int = 1 << 30
    backlog: int = 300_000
    backlog_topics: int = 64


@dataclass(frozen=True)
class Bench:
    """What a measure stands on.

    Attributes:
        scale: How much is done.
        apache: Apache's release; None where it is not to be had.
        say: Takes a word on how far it is.
        draw: Takes latencies over time, to be shown beside the tables.
    """

    scale: Scale
    apache: Apache | None
    say: Callable[[str], None]
    draw: Callable[[Timeline], None]


Sample = tuple[str, str, Outcome]
"""Row, servers, and what was measured."""


@dataclass(frozen=True)
class StoreMeasure:
    """Takes the figures of some rows together.

    Attributes:
        name: For the command line.
        rows: What it yields samples of.
        take: Takes each of them once.
        turns: How often it is taken in a round: what takes little time is taken more often.
    """

    name: str
    rows: tuple[Row, ...]
    take: Callable[[Bench], Iterator[Sample]]
    turns: int = 1


@contextmanager
def directory() -> Iterator[Path]:
    """A directory that is gone afterwards, where temporary files of this machine lie."""
    path = Path(tempfile.mkdtemp(prefix="rocketpy-bench-store-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
