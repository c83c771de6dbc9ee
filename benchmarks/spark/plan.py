"""What is measured of the Spark sink, and what it has to reach."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.bars import OURS, Bar, Figure
from benchmarks.measure import Row
from benchmarks.spark.usage import DRIVER, JVM, WORKERS

NAME = "spark-sink"
LOOPS = ("df-bare", "df-sink", "rdd-bare", "rdd-sink")
"""In the order in which a round takes them."""
FLAT = 10.0
"""By how many percent memory may grow from the second quarter of a loop to the last."""
WATCHED = (DRIVER, JVM, WORKERS)

ROWS = (
    Row("spark-df-bare", "DataFrame, the loop without sending", "/s", kind="spark"),
    Row("spark-df-sink", "DataFrame, columns", "/s", "spark-df-bare", "spark"),
    Row("spark-rdd-bare", "RDD of pairs, the loop without sending", "/s", kind="spark"),
    Row("spark-rdd-sink", "RDD of pairs, a function", "/s", "spark-rdd-bare", "spark"),
)


def _flat(loop: str, title: str, role: str) -> Bar:
    figure = Figure(f"spark-{loop}", OURS, f"{role}_growth_percent", "%")
    return Bar("spark", f"{title}: memory of {role}, growth", figure, FLAT, at_least=False)


SPARK_BARS = (
    Bar("spark", "DataFrame into the sink", Figure("spark-df-sink", OURS), 50_000.0),
    Bar(
        "spark",
        "DataFrame into the sink, to the loop without sending",
        Figure("spark-df-sink", OURS),
        0.4,
        over=Figure("spark-df-bare", OURS),
    ),
    Bar("spark", "RDD of pairs into the sink", Figure("spark-rdd-sink", OURS), 50_000.0),
    *(_flat(*loop, role) for loop in (("df-sink", "DataFrame"), ("rdd-sink", "RDD")) for role in WATCHED),
)
"""No share is asked of the RDD: its loop without sending unpacks what Python packed, which is nearly nothing."""


def is_asked_for(names: Iterable[str]) -> bool:
    """Whether one of the names on the command line is of Spark."""
    return any(name == NAME or name in {row.name for row in ROWS} for name in names)
