"""Counts of waiting timer messages by topic: the file timermetrics. Plays the part of TimerMetrics.

The counts belong to the checkpoint of the timer, and are written with it, by no other service.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.timer import TimerMetric, TimerMetrics
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy_broker_sim.broker.tables.persist import FILE_LIMITS, StoredTable
from rocketpy_broker_sim.serving.encoding import parts_of

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["TimerMetricsTable"]


class TimerMetricsTable(StoredTable):
    """Counts of waiting messages.

    Args:
        storage: where the file is.
        exists: whether there is a topic. The messages of one that was deleted still wait: its count goes with the last.

    Attributes:
        data_version: Rises with every change.
    """

    file_name = "timermetrics"

    def __init__(self, storage: Storage, exists: Callable[[str], bool] = lambda topic: True) -> None:
        super().__init__(storage)
        self._exists = exists
        self._counts: dict[str, tuple[int, int]] = {}  # and when each was changed last, ms
        self.data_version = DataVersion()

    def count(self, topic: str) -> int:
        """The number of waiting messages of a topic."""
        return self._counts.get(topic, (0, 0))[0]

    def add(self, topic: str, more: int) -> None:
        """Change the number of waiting messages of a topic by `more`."""
        self._counts[topic] = self.count(topic) + more, wall_ms()
        self.forget(topic)
        self.data_version = self.data_version.next_version()
        self.changed = True

    def counted_among(self, topics: Iterable[str]) -> set[str]:
        """The topics among these that have a count, found in one call into C: thousands may be made at once."""
        return self._counts.keys() & topics

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted, once none of its messages waits.

        A recall without a message has the count below zero until its slot is closed, which makes good for it.
        """
        if self.count(topic) == 0 and not self._exists(topic) and self._counts.pop(topic, None) is not None:
            self.changed = True

    def body_steps(self) -> Generator[None, None, TimerMetrics]:
        """The counts of the topics that there are, as GET_TIMER_METRICS reports them; in steps."""
        found, version = {}, self.data_version
        for part in parts_of(list(self._counts.items())):
            for topic, (count, changed) in part:
                if self._exists(topic):
                    found[topic] = TimerMetric(count=count, time_stamp=changed)
            yield
        return TimerMetrics(timing_count=found, data_version=version)

    def encode_steps(self) -> Generator[None, None, bytes]:
        """The content of the file as it is now: one line, as Apache's broker writes it."""
        return _written(self.data_version, list(self._counts.items()))

    def decode(self, data: bytes) -> None:
        """Take over the file."""
        found = TimerMetrics.decode(data, limits=FILE_LIMITS)
        self._counts = {topic: (metric.count, metric.time_stamp) for topic, metric in found.timing_count.items()}
        self.data_version = found.data_version or self.data_version


def _written(version: DataVersion, counts: Sequence[tuple[str, tuple[int, int]]]) -> Generator[None, None, bytes]:
    found = bytearray(b'{"dataVersion":%b,"timingCount":{' % _json(version.to_json()))
    for number, part in enumerate(parts_of(counts)):
        if number:
            found += b","
        found += _json({topic: {"count": count, "timeStamp": changed} for topic, (count, changed) in part})[1:-1]
        yield
    found += b"}}"
    yield
    return bytes(found)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
