"""Registers the expressions that requests carry, and has them compiled.

An expression that has to be compiled first is registered afterwards, if the group still subscribes with it then. Plays
the part of the REGISTER event of DefaultConsumerIdsChangeListener.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.wire.bodies.subscription import SubscriptionData
    from rocketpy_broker_sim.broker.filters.compiling import Compiled, Compiling
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable

__all__ = ["FilterRegistry"]


class FilterRegistry:
    """What requests may do with filters.

    Attributes:
        table: The filters by topic and group.
        compiling: Compiles expressions.
    """

    def __init__(self, table: ConsumerFilterTable, compiling: Compiling) -> None:
        self.table = table
        self.compiling = compiling

    def register(
        self,
        group: str,
        subscriptions: Sequence[SubscriptionData],
        is_current: Callable[[SubscriptionData], bool],
        done: Callable[[], object],
    ) -> int:
        """Register the subscriptions of a group.

        Args:
            group: the group's name.
            subscriptions: all of its subscriptions.
            is_current: whether the group still has a subscription; called once its expression has been compiled.
            done: called once for each expression that had to be compiled first, after it was registered.

        Returns:
            How many expressions have to be compiled first.

        Raises:
            BrokerError: too many expressions wait to be compiled.
        """
        table, later = self.table, 0
        if all(wanted.is_tag for wanted in subscriptions) and not table.has_group(group):
            return 0
        for wanted in subscriptions:
            text = wanted.sub_string or ""
            needed = table.needs(group, wanted)
            cached = self.compiling.cached(text) if needed else None
            if needed and cached is None:
                self.compiling.later(text, partial(self._registered, group, wanted, is_current, done))
                later += 1
            else:
                table.register(group, wanted, cached)
        table.keep(group, {wanted.topic for wanted in subscriptions})
        return later

    def _registered(
        self,
        group: str,
        wanted: SubscriptionData,
        is_current: Callable[[SubscriptionData], bool],
        done: Callable[[], object],
        found: Compiled,
    ) -> None:
        if is_current(wanted):
            self.table.register(group, wanted, found)
        done()
