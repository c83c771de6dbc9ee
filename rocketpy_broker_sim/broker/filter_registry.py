"""Where requests bring expressions: heartbeats to register them, others to have them compiled.

What has to be compiled first is registered when that is done, if it still holds then. Plays the part of the REGISTER
event of DefaultConsumerIdsChangeListener.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.wire.bodies.subscription import SubscriptionData
    from rocketpy_broker_sim.broker.compiling import Compiled, Compiling
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable

__all__ = ["FilterRegistry"]


class FilterRegistry:
    """What requests may do with filters.

    Attributes:
        table: Who filters which topic.
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
        """Take in what a group subscribes.

        Args:
            group: its name.
            subscriptions: all that it subscribes.
            is_current: whether the group still subscribes so, asked once an expression has been compiled.
            done: called once for each expression that has to be compiled first, when that is registered.

        Returns:
            How many of those there are.

        Raises:
            BrokerError: too many wait to be compiled.
        """
        table, later = self.table, 0
        if all(wanted.is_tag for wanted in subscriptions) and not table.has_group(group):
            return 0
        for wanted in subscriptions:
            text = wanted.sub_string or ""
            needed = table.needs(group, wanted)
            known = self.compiling.known(text) if needed else None
            if needed and known is None:
                self.compiling.later(text, partial(self._registered, group, wanted, is_current, done))
                later += 1
            else:
                table.register(group, wanted, known)
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
