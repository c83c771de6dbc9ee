"""The rows, keys and values of 100 bytes: a DataFrame that the JVM makes, and an RDD of pairs that Spark has kept.

A row of the DataFrame is packed in the JVM and unpacked in Python, which is most of what the loop without sending
takes. Pairs were packed by Python, many at once; the loop over them is ten times as fast, and says little of a sink.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rocketpy import Message

TOPIC = "BenchSpark"
VALUE = bytes(range(48, 98)) * 2
PARTITIONS = 8


def frame(session: Any, rows: int) -> Any:
    """A DataFrame with the columns ``keys`` and ``value``."""
    text = VALUE.decode("ascii").replace("\\", "\\\\")
    numbers = session.range(0, rows, 1, PARTITIONS)
    return numbers.selectExpr("concat('order-', cast(id as string)) as keys", f"cast('{text}' as binary) as value")


def pairs(session: Any, rows: int) -> Any:
    """An RDD of pairs of a key and a value, on the disk."""
    from pyspark import StorageLevel

    kept = session.sparkContext.range(0, rows, 1, PARTITIONS).map(pair).persist(StorageLevel.DISK_ONLY)
    kept.foreachPartition(drain)
    return kept


def pair(number: int) -> tuple[str, bytes]:
    """One element of the RDD."""
    return f"order-{number}", VALUE


def to_message(element: tuple[str, bytes]) -> Message:
    """As a user writes it for an RDD."""
    key, value = element
    return Message(TOPIC, value, keys=key)


def drain(rows: Iterable[object]) -> None:
    """The loop without sending: what Spark takes to bring rows to Python."""
    for _ in rows:
        pass
