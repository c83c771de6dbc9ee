"""Counts of the rows that a sink has written: executors add to them, and the driver reads them.

With Spark they are accumulators, and Spark only keeps the updates of tasks that succeeded: messages that a failed task
has sent are not counted, those of its retry are. Without Spark they are plain sums of this process. A partition adds
its counts once, at its end.
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
    _lock = threading.Lock()  # a thread that does not exist in the child may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


class Counts(NamedTuple):
    """Numbers of rows, and the bytes of the bodies that were sent."""

    sent: int = 0
    """Messages that a broker has acknowledged, or that were found to be stored already."""
    failed: int = 0
    """Rows whose messages could not be sent, with ``failed_sends="count"``."""
    skipped: int = 0
    """Rows for which `to_message` returned None, and bad rows with ``bad_rows="skip"``."""
    bytes: int = 0
    """Bytes of the bodies of the messages that were sent."""

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        return Counts(*map(int.__add__, self, other))


class Tally:
    """The counts of one sink. When it is pickled on the driver, its accumulators are included."""

    def __init__(self) -> None:
        self._here = Counts()
        self._accumulators: tuple[Any, ...] | None = None
        self._went_without = False
        self.connect()

    def connect(self) -> None:
        """Make the accumulators, if there are none yet and this is the driver of a SparkContext."""
        context = active_context()
        if context is None:
            return
        with _lock:  # jobs may begin in several threads, and must all use the same accumulators
            if self._accumulators is None:
                self._accumulators = tuple(context.accumulator(0) for _ in Counts._fields)

    def add(self, counts: Counts) -> None:
        """Add the counts of one partition."""
        if self._accumulators is None:
            with _lock:
                self._here = self._here.plus(counts)
            return
        for accumulator, number in zip(self._accumulators, counts, strict=True):
            if number:
                accumulator.add(number)

    @property
    def value(self) -> Counts:
        """The counts of all partitions, on the driver.

        Raises:
            ConfigError: this is not the driver, or nothing was counted.
        """
        if self._accumulators is None:
            if self._went_without:
                raise ConfigError(
                    "the sink was sent to executors without a SparkContext (as under Spark Connect), so its rows are "
                    "not counted: count the rows of the DataFrame, or the messages of the topic"
                )
            return self._here
        if any(getattr(each, "_deserialized", False) for each in self._accumulators):
            raise ConfigError("the counts of a sink are read on the driver: executors only add to them")
        return self._here.plus(Counts(*(each.value for each in self._accumulators)))

    def __getstate__(self) -> tuple[Any, ...] | None:
        """Only the accumulators, without the sums of this process."""
        self.connect()
        if self._accumulators is None:
            self._went_without = True
        return (self._accumulators,)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._here = Counts()
        self._went_without = False
        (self._accumulators,) = state
