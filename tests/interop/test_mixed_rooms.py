"""One group of Apache's consumers and ours that share queues by machine room, or as each is configured."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import rocketpy.sync
from rocketpy import (
    AllocateAveragely,
    AllocateByConfig,
    AllocateByMachineRoom,
    AllocateMachineRoomNearby,
    ConsumeFromWhere,
    Message,
    MessageQueue,
)
from tests.interop import probe
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox
from tests.interop.ours import our_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rocketpy.consumer.rebalancing.strategies import AllocateStrategy
    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaPushConsumer

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's clients")]

EAST, WEST = "east@broker-e", "west@broker-w"
QUEUES = 5
BOTH_ROOMS = {f"{broker}:{number}" for broker in (EAST, WEST) for number in range(QUEUES)}
ONE_ROOM = {f"{EAST}:{number}" for number in range(QUEUES)}


@pytest.fixture(scope="module")
def rooms(our_servers: Cluster) -> Iterator[tuple[str, ...]]:
    """A broker of ours in each of two rooms; their addresses."""
    with our_broker(our_servers.namesrv, name=EAST) as east, our_broker(our_servers.namesrv, name=WEST) as west:
        yield east.address, west.address


@pytest.fixture
def topic(our_servers: Cluster, rooms: tuple[str, ...], fresh_name: Callable[[str], str]) -> str:
    """A topic with five queues in each room."""
    name = fresh_name("Rooms")
    for address in rooms:
        probe.create_topic(address, name, queues=QUEUES)
    probe.wait_route(our_servers.namesrv, name, brokers=2)
    return name


class Group:
    """Members of both kinds. The instance name of each begins with its room."""

    def __init__(self, apache: Apache, namesrv: str, group: str, topic: str, stack: ExitStack) -> None:
        self._apache = apache
        self._namesrv = namesrv
        self._group = group
        self._topic = topic
        self._stack = stack
        self._javas: list[JavaPushConsumer] = []
        self._ours: list[tuple[rocketpy.sync.PushConsumer, Inbox]] = []

    def java(self, room: str, **options: Any) -> None:
        """One of Apache's joins."""
        instance = f"{room}-java-{len(self._javas)}-{self._group}"
        driver = java_push_consumer(self._apache, self._namesrv, self._group, self._topic, instance=instance, **options)
        self._javas.append(self._stack.enter_context(driver))

    def ours(self, room: str, strategy: AllocateStrategy) -> None:
        """One of ours joins."""
        inbox = Inbox()
        consumer = rocketpy.sync.PushConsumer(
            self._group,
            namesrv=self._namesrv,
            instance_name=f"{room}-ours-{len(self._ours)}-{self._group}",
            allocate_strategy=strategy,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe(self._topic, inbox.take)
        self._ours.append((self._stack.enter_context(consumer), inbox))

    def shares(self) -> list[set[str]]:
        """What each member holds, Apache's first."""
        javas = [set(java.share.get(self._topic, ())) for java in self._javas]
        return javas + [{named(queue) for queue in each.assignment} for each, _ in self._ours]

    def settled(self, queues: set[str], sizes: Sequence[int]) -> list[set[str]]:
        """Wait until each of these queues has one owner, and the members so many."""

        def look() -> list[set[str]] | None:
            shares = self.shares()
            if sum(map(len, shares)) != len(queues) or set.union(*shares) != queues:
                return None
            return shares if [len(share) for share in shares] == [*sizes] else None

        return probe.eventually(look, f"shares of {sizes} queues", 40.0)

    def check_messages(self, queues: set[str], shares: Sequence[set[str]]) -> None:
        """Send one message to each of these queues; it comes to the owner of the queue and to nobody else."""
        with rocketpy.sync.Producer("room-senders", namesrv=self._namesrv, send_timeout=10.0) as producer:
            for queue in producer.queues(self._topic):
                if named(queue) in queues:
                    producer.send(Message(self._topic, b"x"), queue=queue)
        probe.eventually(lambda: sum(map(len, self._came())) >= len(queues) or None, "all messages", 30.0)
        assert [sorted(each) for each in self._came()] == [sorted(share) for share in shares]

    def _came(self) -> list[list[str]]:
        javas = [[f"{each['brokerName']}:{each['queueId']}" for each in java.messages] for java in self._javas]
        return javas + [[named(message.queue) for message in inbox.messages] for _, inbox in self._ours]


def named(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_client(client_id: str) -> str:
    return client_id.split("@")[1].partition("-")[0]


@pytest.fixture
def group(apache: Apache, our_servers: Cluster, topic: str, fresh_name: Callable[[str], str]) -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(apache, our_servers.namesrv, fresh_name("rooms"), topic, stack)


def test_complaint_22_queues_stay_in_the_room_of_their_broker(group: Group) -> None:
    """While a room has no member, all share its queues; then its members alone do, of whichever kind they are."""
    nearby = AllocateMachineRoomNearby(AllocateAveragely(), room_of_queue, room_of_client)
    group.java("east", allocate="nearby")
    group.ours("east", nearby)
    group.settled(BOTH_ROOMS, [6, 4])  # three and two of each room, or the other way round
    group.java("west", allocate="nearby")
    group.ours("west", nearby)
    shares = group.settled(BOTH_ROOMS, [3, 3, 2, 2])
    assert [{queue.partition("@")[0] for queue in share} for share in shares] == [
        {"east"},
        {"west"},
        {"east"},
        {"west"},
    ]
    group.check_messages(BOTH_ROOMS, shares)


def test_complaint_22_only_the_queues_of_certain_rooms_are_shared(group: Group) -> None:
    group.java("any", allocate="machine_room", rooms="east,north")
    group.ours("any", AllocateByMachineRoom(["east", "north"]))
    shares = group.settled(ONE_ROOM, [3, 2])
    group.check_messages(ONE_ROOM, shares)


def test_complaint_22_each_has_the_queues_that_it_is_given(group: Group, topic: str) -> None:
    theirs = {f"{EAST}:{number}" for number in range(QUEUES)} | {f"{WEST}:0"}
    own = BOTH_ROOMS - theirs
    group.java("any", allocate="config", queues=",".join(sorted(theirs)))
    group.ours("any", AllocateByConfig([MessageQueue(topic, WEST, number) for number in range(1, QUEUES)]))
    shares = group.settled(BOTH_ROOMS, [6, 4])
    assert shares == [theirs, own]
    group.check_messages(BOTH_ROOMS, shares)
