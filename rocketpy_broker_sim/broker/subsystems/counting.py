"""How many messages came and went, as a part of the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.runtime_info import measures_of_messages
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.statistics import BrokerStatistics
    from rocketpy_broker_sim.broker.subsystems.storing import Storing

__all__ = ["Counting"]


class Counting(Subsystem):
    """Keeps the sums of every second, and tells them.

    Args:
        statistics: the sums.
        storing: says how many bytes came.

    Attributes:
        statistics: The sums.
    """

    def __init__(self, statistics: BrokerStatistics, storing: Storing) -> None:
        self.statistics = statistics
        self._storing = storing

    def run(self) -> Iterable[Service]:
        """Keeping the sums of every second in which something came or went."""
        yield self.statistics.serve

    def measures(self) -> Mapping[str, str]:
        """What came and went: since the start, up to the last two midnights, and a second lately."""
        size = self._storing.store.written_position - self._storing.booted_at
        return measures_of_messages(self.statistics, size)
