"""How many messages came and went, as a part of the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.metrics.parts import metrics_of_messages
from rocketpy_broker_sim.broker.runtime_info import measures_of_messages
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flows import Flows
    from rocketpy_broker_sim.broker.statistics import BrokerStatistics
    from rocketpy_broker_sim.broker.subsystems.storing import Storing
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Counting"]


class Counting(Subsystem):
    """Keeps the sums of every second, and tells them.

    Args:
        statistics: the sums of all messages.
        flows: the sums of each topic and queue.
        storing: says how many bytes came, and how long the last put took.
        topics: says which topics have been deleted.

    Attributes:
        statistics: The sums of all messages.
        flows: The sums of each topic and queue.
    """

    def __init__(self, statistics: BrokerStatistics, flows: Flows, storing: Storing, topics: TopicTable) -> None:
        self.statistics = statistics
        self.flows = flows
        self._storing = storing
        self._times = storing.put_times
        self._topics = topics
        topics.subscribe(self._changed)

    def arrived(self, arrival: Arrival) -> None:
        """Messages can be read."""
        count = len(arrival.tags_codes)
        self.statistics.note_put(count)
        self.flows.note_put(arrival[:2], count, arrival.size, self._times.latest)

    def _changed(self, topics: list[str]) -> None:
        for name in self.flows.kept_among(topics):
            if name not in self._topics:
                self.flows.forget(name)

    def run(self) -> Iterable[Service]:
        """Keeping the sums of every second in which something came or went."""
        yield self.statistics.serve
        yield self.flows.serve

    def measures(self) -> Mapping[str, str]:
        """What came and went: since the start, up to the last two midnights, and a second lately."""
        size = self._storing.store.written_position - self._storing.booted_at
        return measures_of_messages(self.statistics, size)

    def families(self) -> Iterable[Family]:
        """What came and went since the start."""
        return metrics_of_messages(self.statistics)
