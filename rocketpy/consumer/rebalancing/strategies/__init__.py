"""Allocation strategies: how the queues of a topic are shared out among the members of a group. Pure.

Each plays the part of one of Java's implementations of AllocateMessageQueueStrategy.
"""

from __future__ import annotations

from rocketpy.consumer.rebalancing.strategies.averagely import AllocateAveragely
from rocketpy.consumer.rebalancing.strategies.by_circle import AllocateByCircle
from rocketpy.consumer.rebalancing.strategies.by_config import AllocateByConfig
from rocketpy.consumer.rebalancing.strategies.consistent_hash import AllocateConsistentHash
from rocketpy.consumer.rebalancing.strategies.machine_room import AllocateByMachineRoom
from rocketpy.consumer.rebalancing.strategies.machine_room_nearby import AllocateMachineRoomNearby
from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest, AllocateStrategy

__all__ = [
    "AllocateAveragely",
    "AllocateByCircle",
    "AllocateByConfig",
    "AllocateByMachineRoom",
    "AllocateConsistentHash",
    "AllocateMachineRoomNearby",
    "AllocateRequest",
    "AllocateStrategy",
]
