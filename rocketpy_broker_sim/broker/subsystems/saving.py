"""Writing the tables of all parts, as a part of the broker. `persistence` does it; this says when."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from rocketpy_broker_sim.broker.persistence import Persistence
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Saving"]


class Saving(Subsystem):
    """Writes what the other parts persist.

    Args:
        config: the settings.
        others: the parts before it.
    """

    def __init__(self, config: BrokerConfig, others: Iterable[Subsystem]) -> None:
        self._interval = config.flush_consumer_offset_interval / 1000
        self.persistence = Persistence([table for other in others for table in other.persists()])

    def run(self) -> Iterable[Service]:
        """Writing changes as they come, and every few seconds those that come all the time."""
        yield self.persistence.serve_changes
        yield partial(self.persistence.serve_periodically, self._interval)

    async def close(self) -> None:
        """Write what has changed."""
        await self.persistence.save()
