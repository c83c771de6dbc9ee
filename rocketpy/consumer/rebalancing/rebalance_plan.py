"""What a rebalance changes: the queues to take, and those to give up. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["RebalancePlan", "plan_rebalance"]


class RebalancePlan(NamedTuple):
    """The queues to take and the queues to give up, each sorted."""

    add: tuple[MessageQueue, ...]
    """Queues to take."""
    drop: tuple[MessageQueue, ...]
    """Queues to give up."""


def plan_rebalance(assigned: Collection[MessageQueue], current: Collection[MessageQueue]) -> RebalancePlan:
    """Plan the change from the queues that a member has now to those that it should have."""
    wanted, held = set(assigned), set(current)
    return RebalancePlan(tuple(sorted(wanted - held)), tuple(sorted(held - wanted)))
