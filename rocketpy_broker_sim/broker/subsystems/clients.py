"""Who is connected, and in which groups. Plays ConsumerManager, ProducerManager and ClientHousekeepingService."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.services import ticks
from rocketpy_broker_sim.broker.notifications import notify_consumer_ids_changed
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.producers import ProducerTable

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["Clients"]

SCAN_EVERY = 10.0
"""Seconds between two looks for clients that have gone silent."""


class Clients(Subsystem):
    """The members of all groups.

    Args:
        config: the settings.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.consumers = ConsumerTable(config, clock=trio.current_time, notify=notify_consumer_ids_changed)
        self.producers = ProducerTable(config, clock=trio.current_time)

    def forget(self, connection: Connection) -> None:
        """A connection has closed: its client is in no group any more."""
        self.consumers.on_close(connection)
        self.producers.on_close(connection)

    def run(self) -> Iterable[Service]:
        """Looking for clients that have gone silent."""
        yield self._scan

    async def _scan(self) -> None:
        """Forget clients that have gone silent, and close their connections."""
        async for _ in ticks(SCAN_EVERY):
            for channel in {*self.consumers.scan(), *self.producers.scan()}:
                cast("Connection", channel).close()
