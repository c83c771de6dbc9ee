"""Who is connected, and in which groups. Plays ConsumerManager, ProducerManager and ClientHousekeepingService."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.services import ticks
from rocketpy_broker_sim.broker.notifications import Notices
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.serving.memory import Tally

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import Account
    from rocketpy_broker_sim.serving.slices import Slices

__all__ = ["Clients"]

SCAN_EVERY = 10.0
"""Seconds between two looks for clients that have gone silent."""


class Clients(Subsystem):
    """The members of all groups.

    Args:
        config: the settings.
        slices: does what grows with the number of groups and members.
        account: what is kept of clients counts there.
    """

    def __init__(self, config: BrokerConfig, slices: Slices, account: Account) -> None:
        tally = Tally(account)
        self._slices = slices
        self._notices = Notices(lambda group: self.consumers.told(group), slices)
        self.consumers = ConsumerTable(config, clock=trio.current_time, notify=self._notices.changed, tally=tally)
        self.producers = ProducerTable(config, clock=trio.current_time, tally=tally)

    def forget(self, connection: Connection) -> None:
        """A connection has closed: its client is in no group any more."""
        self._slices.spawn(self.consumers.on_close(connection), "forgetting the consumers of a connection")
        self._slices.spawn(self.producers.on_close(connection), "forgetting the producers of a connection")

    def run(self) -> Iterable[Service]:
        """Telling members of what changed, and looking for clients that have gone silent."""
        yield self._notices.serve
        yield self._scan

    async def _scan(self) -> None:
        async for _ in ticks(SCAN_EVERY):
            self._slices.spawn(self._close_silent(), "looking for clients that have gone silent")

    def _close_silent(self) -> Generator[None, None, None]:
        """Forget clients that have gone silent, and close their connections."""
        consumers = yield from self.consumers.scan()
        producers = yield from self.producers.scan()
        for channel in {*consumers, *producers}:
            cast("Connection", channel).close()
            yield
