"""Filters by properties, as a part of the broker: compiling them, who has which, and the bit maps they leave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from rocketpy.seams import wall_ms
from rocketpy.services import ticks
from rocketpy_broker_sim.broker.filters.bit_maps import BitMapper
from rocketpy_broker_sim.broker.filters.compiling import Compiling
from rocketpy_broker_sim.broker.filters.filter_registry import FilterRegistry
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable
from rocketpy_broker_sim.serving.memory import WAITING_REQUESTS, TableRoom
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.subsystems.storing import Storing
    from rocketpy_broker_sim.broker.tables.persist import StoredTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import MemoryBudget

__all__ = ["Filters"]

CLEAN_EVERY = 10.0
"""Seconds between two looks for filters that have been dead for long."""


class Filters(Subsystem):
    """Filters of consumers by the properties of messages.

    Args:
        config: the settings.
        storage: where the file is.
        storing: whose messages are filtered; recovered before.
        budget: what filters take counts there, and what the requests keep that wait for theirs.

    Attributes:
        table: Who filters which topic.
        registry: Where requests bring expressions.
    """

    def __init__(self, config: BrokerConfig, storage: Storage, storing: Storing, budget: MemoryBudget) -> None:
        self._storing = storing
        self._compiling = Compiling(budget.account(WAITING_REQUESTS))
        self.table = ConsumerFilterTable(
            config,
            storage,
            self._compiling.compiler,
            now=storing.store.clock.now_ms,
            room=TableRoom(budget, "delete groups that are not needed"),
        )
        budget.on_tables_full(self.table.make_room)
        self.registry = FilterRegistry(self.table, self._compiling)
        if config.enable_calc_filter_bit_map and config.store.enable_consume_queue_ext:
            storing.store.keep_bit_maps(BitMapper(self.table))

    def recover(self) -> None:
        """Read who filtered what; after a crash, which bit maps that leaves is not known."""
        self.table.load()
        if self._storing.store.was_unclean:
            # Not `now_ms` of the clock: this runs in a thread, where the monotonic clock of the loop cannot be read.
            self.table.begin_again(max(wall_ms(), self._storing.store.clock.newest))

    def run(self) -> Iterable[Service]:
        """Forgetting what has been dead for long."""
        yield self._clean

    @trio.lowlevel.enable_ki_protection
    async def _clean(self) -> None:
        async for _ in ticks(CLEAN_EVERY):
            await in_slices(self.table.clean_steps())

    async def settle(self) -> None:
        """Answer those who wait for an expression."""
        await self._compiling.wait_none()

    def persists(self) -> Iterable[StoredTable]:
        """The table."""
        return (self.table,)
