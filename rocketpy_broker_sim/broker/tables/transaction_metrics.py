"""Counts of open transactions by topic: config/transactionMetrics. Plays TransactionMetrics.

After a crash, the counts may be a little wrong, as in Apache's broker. They are only reported, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.json_body import Body, body, member
from rocketpy_broker_sim.broker.tables.persist import FILE_LIMITS, Entries, StoredTable, pretty_steps

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["TransactionMetrics"]


@body
class _Metric(Body):
    count: int = 0
    time_stamp: int = 0


@body
class _Metrics(Body):
    data_version: DataVersion = member(factory=DataVersion)
    transaction_count: dict[str, _Metric] = member(factory=dict)


class TransactionMetrics(StoredTable):
    """Open transactions by topic.

    Args:
        storage: where the file is.
        exists: whether there is a topic. Transactions of one that was deleted are still open: its count goes with the
            last.
    """

    file_name = "transactionMetrics"

    def __init__(self, storage: Storage, exists: Callable[[str], bool] = lambda topic: True) -> None:
        super().__init__(storage)
        self._exists = exists
        self._metrics: dict[str, _Metric] = {}
        self._version = DataVersion()
        self._since = 0
        """Changes that the version does not count yet."""
        self._last = 0

    @property
    def data_version(self) -> DataVersion:
        """Rises with every change. Made only when it is asked for: there are two changes to each transaction."""
        if self._since:
            version = self._version
            self._version = DataVersion(
                state_version=version.state_version, timestamp=self._last, counter=version.counter + self._since
            )
            self._since = 0
        return self._version

    def add(self, topic: str, change: int) -> None:
        """Change the number of open transactions of a topic by `change`."""
        metric = self._metrics.get(topic)
        if metric is None:
            metric = self._metrics[topic] = _Metric()
        metric.count += change
        metric.time_stamp = self._last = wall_ms()
        if metric.count <= 0:
            self.forget(topic)
        self._since += abs(change)
        self.changed = True

    def counts(self) -> Mapping[str, int]:
        """Open transactions by topic."""
        return {topic: metric.count for topic, metric in self._metrics.items()}

    def counted_among(self, topics: Iterable[str]) -> set[str]:
        """The topics among these that have a count, found in one call into C: thousands may be made at once."""
        return self._metrics.keys() & topics

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted, once none of its transactions is open."""
        metric = self._metrics.get(topic)
        if metric is not None and metric.count <= 0 and not self._exists(topic):
            del self._metrics[topic]
            self.changed = True

    def encode_steps(self) -> Generator[None, None, bytes]:
        """The content of the file."""
        counts = Entries((topic, metric.to_json()) for topic, metric in list(self._metrics.items()))
        return pretty_steps({"dataVersion": self.data_version.to_json(), "transactionCount": counts})

    def decode(self, data: bytes) -> None:
        """Take over the file."""
        found = _Metrics.decode(data, limits=FILE_LIMITS)
        self._metrics = dict(found.transaction_count)
        self._version, self._since = found.data_version, 0
