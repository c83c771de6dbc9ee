"""What a sink has written: sums that executors add to and the driver reads.

On executors they are accumulators of Spark, of which Spark keeps the updates of tasks that succeeded: what a failed
task had sent before it failed is not in the sums, and what its retry sent is. Without Spark they are plain sums of this
process. Not here: when a partition adds its counts, which it does once, at its end.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

from rocketpy.errors import ConfigError
from rocketpy.spark.task import active_context

__all__ = ["Counts", "Tally"]

_lock = threading.Lock()


def _forget_after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread that did not come along may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


class Counts(NamedTuple):
    """How many rows, and the `bytes` of the bodies that were sent."""

    sent: int = 0
    """Messages that a broker has acknowledged."""
    failed: int = 0
    """Rows given up because they could not be sent, with ``failed_sends="count"``."""
    skipped: int = 0
    """Rows passed over, for a function answered None, or they could be no message, with ``bad_rows="skip"``."""
    bytes: int = 0
    """Bytes of the bodies of the messages that were sent."""

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        return Counts(*map(int.__add__, self, other))


class Tally:
    """The sums of one sink; pickled on the driver it takes accumulators along."""

    def __init__(self) -> None:
        self._here = Counts()
        self._accumulators: tuple[Any, ...] | None = None
        self._went_without = False
        self.connect()

    def connect(self) -> None:
        """Make the accumulators, when they are missing and this is the driver of a SparkContext."""
        context = active_context()
        if context is None:
            return
        with _lock:  # jobs may begin in several threads, and all of them have to take the same ones along
            if self._accumulators is None:
                self._accumulators = tuple(context.accumulator(0) for _ in Counts._fields)

    def add(self, counts: Counts) -> None:
        """Add what one partition has written."""
        if self._accumulators is None:
            with _lock:
                self._here = self._here.plus(counts)
            return
        for accumulator, number in zip(self._accumulators, counts, strict=True):
            if number:
                accumulator.add(number)

    @property
    def value(self) -> Counts:
        """The sums, on the driver.

        Raises:
            ConfigError: they are not known here.
        """
        if self._accumulators is None:
            if self._went_without:
                raise ConfigError(
                    "the sink went to executors without a SparkContext (as under Spark Connect), so nobody counts what "
                    "they write: count the rows of the DataFrame, or the messages of the topic"
                )
            return self._here
        if any(getattr(each, "_deserialized", False) for each in self._accumulators):
            raise ConfigError("the counts of a sink are read on the driver: executors only add to them")
        return self._here.plus(Counts(*(each.value for each in self._accumulators)))

    def __getstate__(self) -> tuple[Any, ...] | None:
        """The accumulators alone: sums of this process stay here."""
        self.connect()
        if self._accumulators is None:
            self._went_without = True
        return (self._accumulators,)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._here = Counts()
        self._went_without = False
        (self._accumulators,) = state
