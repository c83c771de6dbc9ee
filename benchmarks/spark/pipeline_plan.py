"""What is measured of reads, writes and streams with Spark, and what it has to reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.bars import OURS, Bar, Figure
from benchmarks.measure import Row

NAME = "spark"


@dataclass(frozen=True)
class Extent:
    """How much is done for one figure.

    Attributes:
        rows: That are read or written.
        batches: Micro-batches that count.
        idle_seconds: For how long an idle query is watched.
        one_core: Whether reads are also taken with one core, for which there is a session of its own.
    """

    rows: int
    batches: int = 20
    idle_seconds: float = 10.0
    one_core: bool = True


ROWS = (
    Row("spark-generator", "Arrow batches of a generator, without a broker", "/s", kind="spark"),
    Row("spark-read", "read from 4 queues, all columns", "/s", "spark-generator", "spark"),
    Row("spark-read-2-queues", "  from 2 of them, beside 4", "/s", "spark-read", "spark"),
    Row("spark-read-1-queue", "  from 1 of them, beside 4", "/s", "spark-read", "spark"),
    Row("spark-read-1-core", "  from 4 with one core, beside two cores", "/s", "spark-read", "spark"),
    Row("spark-generator-1-core", "the generator with one core, beside two cores", "/s", "spark-generator", "spark"),
    Row("spark-foreach", "write by foreachPartition and a sink", "/s", kind="spark"),
    Row("spark-write", "write by the format, beside that", "/s", "spark-foreach", "spark"),
    Row("spark-batch-generator", "a micro-batch of the generator, 4 partitions", "ms", kind="spark"),
    Row("spark-batch", "a micro-batch from 4 queues", "ms", "spark-batch-generator", "spark"),
    Row("spark-idle", "an idle streaming query, Python's part of a core", "%", kind="spark"),
)

PIPELINE_BARS = (
    Bar("spark", "read, to the generator", Figure("spark-read", OURS), 0.18, over=Figure("spark-generator", OURS)),
    Bar(
        "spark",
        "write by the format, to foreachPartition",
        Figure("spark-write", OURS),
        1.0,
        over=Figure("spark-foreach", OURS),
    ),
    Bar("spark", "a micro-batch from 4 queues", Figure("spark-batch", OURS), 250.0, at_least=False),
    Bar("spark", "an idle query, of a core", Figure("spark-idle", OURS), 3.0, at_least=False, note="broker_percent"),
)


def is_asked_for(names: Iterable[str]) -> bool:
    """Whether one of the names on the command line is of these."""
    return any(name == NAME or name in {row.name for row in ROWS} for name in names)
