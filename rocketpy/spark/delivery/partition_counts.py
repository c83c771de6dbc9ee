"""Counts the messages of each partition, for the marker of the micro-batch: executors add, the driver reads.

It is an accumulator, so only tasks that succeeded count. Without a SparkContext, as under Spark Connect, nothing is
known.
"""

from __future__ import annotations

from typing import Any

from rocketpy.spark.task import active_context

__all__ = ["PartitionCounts"]


class _Sums:
    """Adds up numbers by partition; what Spark calls an AccumulatorParam."""

    def zero(self, value: dict[int, int]) -> dict[int, int]:
        """What to start with on executors."""
        return {}

    def addInPlace(self, value: dict[int, int], other: dict[int, int]) -> dict[int, int]:
        """Add the second one to the first one."""
        for partition, number in other.items():
            value[partition] = value.get(partition, 0) + number
        return value


class PartitionCounts:
    """The counts of one sink. When it is pickled on the driver, its accumulator is included."""

    def __init__(self) -> None:
        self._accumulator: Any = None
        self._before: dict[int, int] = {}

    def begin(self) -> None:
        """Count from zero: a micro-batch begins. Only on the driver."""
        if self._accumulator is None:
            context = active_context()
            if context is not None:
                self._accumulator = context.accumulator({}, _Sums())
        if self._accumulator is not None:
            self._before = dict(self._accumulator.value)

    def add(self, partition: int, number: int) -> None:
        """Add the messages of a partition. Only on executors."""
        if self._accumulator is not None:
            self._accumulator.add({partition: number})

    def of_batch(self) -> dict[int, int] | None:
        """The counts since the micro-batch began, on the driver; None if they are not known."""
        if self._accumulator is None:
            return None
        before, now = self._before, self._accumulator.value
        return {each: number - before.get(each, 0) for each, number in now.items() if number != before.get(each, 0)}
