"""Every member computes the share that Apache's own classes compute, for all numbers of queues and members."""

from __future__ import annotations

from functools import cache

import pytest

from rocketpy import AllocateByMachineRoom, AllocateMachineRoomNearby
from rocketpy.consumer.rebalancing.allocate import allocate, strategy
from rocketpy.consumer.rebalancing.strategies import AllocateStrategy
from rocketpy.message import MessageQueue
from tests.interop.apache import Apache
from tests.interop.drivers import running

pytestmark = pytest.mark.interop

QUEUES, MEMBERS = 64, 16


STRATEGIES: dict[str, AllocateStrategy] = {
    "averagely": strategy("averagely"),
    "by_circle": strategy("by_circle"),
    "consistent_hash": strategy("consistent_hash"),
    "machine_room": AllocateByMachineRoom(["room0", "room2"]),
    "nearby": AllocateMachineRoomNearby(
        strategy("averagely"),
        room_of_queue=lambda queue: queue.broker_name.split("@")[0],
        room_of_client=lambda client_id: client_id.split("@")[1],
    ),
}


def shares(share_out: AllocateStrategy, queues: list[MessageQueue], ids: list[str]) -> str:
    """For each queue the letter of the member that gets it."""
    owners = dict.fromkeys(sorted(queues), "-")
    for letter, client_id in enumerate(sorted(ids), ord("a")):
        for queue in allocate(share_out, queues, ids, client_id, group="billing", topic="Orders"):
            owners[queue] = chr(letter)
    return "".join(owners.values())


@cache
def ours(name: str, count: int) -> list[str]:
    """For one member, for two, and so on; computed once for all releases of Apache's."""
    queues = [MessageQueue("Orders", f"room{number % 3}@broker-{number % 2}", number) for number in range(count)]
    ids = [f"10.0.0.{number}@room{number % 4}" for number in range(MEMBERS)]
    return [shares(STRATEGIES[name], queues, ids[:few]) for few in range(1, MEMBERS + 1)]


def test_complaint_22_shares_are_javas_for_all_numbers_of_queues_and_members(apache: Apache) -> None:
    options = {"strategies": ",".join(STRATEGIES), "rooms": "room0,room2"}
    with running(apache, "Shares", queues=QUEUES, members=MEMBERS, **options) as driver:
        told = {(each["strategy"], each["queues"]): each["shares"] for each in driver.finish()}
    assert len(told) == len(STRATEGIES) * QUEUES
    different = [(name, count) for (name, count), theirs in told.items() if ours(name, count) != theirs]
    assert different == []
