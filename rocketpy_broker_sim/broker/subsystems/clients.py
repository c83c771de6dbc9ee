"""Who is connected, in which groups, and who holds which queues.

Plays ConsumerManager, ProducerManager, RebalanceLockManager and ClientHousekeepingService.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.services import ticks
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_clients
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.locks import QueueLocks
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.broker.to_clients.calling import ClientCalls
from rocketpy_broker_sim.broker.to_clients.notifications import Notices
from rocketpy_broker_sim.serving.memory import ConnectionCharges, TableRoom

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.serving.memory import Account, MemoryBudget
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
        budget: that of the broker, of which the locks on queues take room.
        gone: told of each consumer group whose last member has gone.
    """

    def __init__(
        self,
        config: BrokerConfig,
        slices: Slices,
        account: Account,
        budget: MemoryBudget,
        gone: Callable[[str], object],
    ) -> None:
        charges = ConnectionCharges(account)
        self._slices = slices
        self._notices = Notices(lambda group: self.consumers.told(group), slices)
        changed = self._notices.changed
        self.consumers = ConsumerTable(config, clock=trio.current_time, notify=changed, charges=charges, gone=gone)
        self.calls = ClientCalls()
        self.locks = QueueLocks(trio.current_time, TableRoom(budget, "wait a minute until locks run out"))
        self.producers = ProducerTable(config, clock=trio.current_time, charges=charges)

    def forget(self, connection: Connection) -> None:
        """A connection has closed: its client is in no group any more."""
        self._slices.spawn(self.consumers.on_close(connection), "forgetting the consumers of a connection")
        self._slices.spawn(self.producers.on_close(connection), "forgetting the producers of a connection")

    def run(self) -> Iterable[Service]:
        """Telling members of what changed, looking for silent clients, and asking clients for administrators."""
        yield self._notices.serve
        yield self._scan
        yield self.calls.serve

    async def settle(self) -> None:
        """Answer those who wait for what a client answers."""
        await self.calls.settle()

    @trio.lowlevel.enable_ki_protection
    async def _scan(self) -> None:
        async for _ in ticks(SCAN_EVERY):
            self._slices.spawn(self._close_silent(), "looking for clients that have gone silent")
            self._slices.spawn(self.locks.sweep(), "forgetting locks that have run out")

    def families(self) -> Iterable[Family]:
        """How many clients there are."""
        return metrics_of_clients(self.consumers, self.producers)

    def _close_silent(self) -> Generator[None, None, None]:
        """Forget clients that have gone silent, and close their connections."""
        consumers = yield from self.consumers.scan()
        producers = yield from self.producers.scan()
        for channel in dict.fromkeys((*consumers, *producers)):
            cast("Connection", channel).close()
            yield
