"""Sharing out queues: what has to change, and the service that changes it.

Every member of a group computes the same shares from the same lists. `plan_rebalance` is pure; the service looks on
start, at an interval, and at once when members or routes change, and only applies what was planned. Plays the part of
RebalanceImpl, RebalancePushImpl and RebalanceService.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["Plan", "plan_rebalance"]


class Plan(NamedTuple):
    """What has to change, in order."""

    add: tuple[MessageQueue, ...]
    drop: tuple[MessageQueue, ...]


def plan_rebalance(assigned: Collection[MessageQueue], current: Collection[MessageQueue]) -> Plan:
    """From what we should have and what we have to what to take and what to give up."""
    wanted, held = set(assigned), set(current)
    return Plan(tuple(sorted(wanted - held)), tuple(sorted(held - wanted)))
