"""Counts of waiting timer messages by topic: the file timermetrics. Plays the part of TimerMetrics.

The counts belong to the checkpoint of the timer, and are written with it, by no other service.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.timer import TimerMetric, TimerMetrics
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy_broker_sim.broker.tables.persist import FILE_LIMITS, StoredTable

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["TimerMetricsTable"]


class TimerMetricsTable(StoredTable):
    """Counts of waiting messages.

    Attributes:
        data_version: Rises with every change.
    """

    file_name = "timermetrics"

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self._counts: dict[str, tuple[int, int]] = {}  # and when each was changed last, ms
        self.data_version = DataVersion()

    def count(self, topic: str) -> int:
        """The number of waiting messages of a topic."""
        return self._counts.get(topic, (0, 0))[0]

    def add(self, topic: str, more: int) -> None:
        """Change the number of waiting messages of a topic by `more`."""
        self._counts[topic] = self.count(topic) + more, wall_ms()
        self.data_version = self.data_version.next_version()
        self.changed = True

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        if self._counts.pop(topic, None) is not None:
            self.changed = True

    def as_body(self) -> TimerMetrics:
        """The counts, as GET_TIMER_METRICS reports them."""
        counts = {
            topic: TimerMetric(count=count, time_stamp=changed) for topic, (count, changed) in self._counts.items()
        }
        return TimerMetrics(timing_count=counts, data_version=self.data_version)

    def encode_steps(self) -> Generator[None, None, bytes]:
        """The content of the file: one line, as Apache's broker writes it."""
        yield
        counts = {
            topic: {"count": count, "timeStamp": changed} for topic, (count, changed) in list(self._counts.items())
        }
        members = {"dataVersion": self.data_version.to_json(), "timingCount": counts}
        return json.dumps(members, separators=(",", ":")).encode()

    def decode(self, data: bytes) -> None:
        """Take over the file."""
        found = TimerMetrics.decode(data, limits=FILE_LIMITS)
        self._counts = {topic: (metric.count, metric.time_stamp) for topic, metric in found.timing_count.items()}
        self.data_version = found.data_version or self.data_version
