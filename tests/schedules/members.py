"""The members of a group: each has a network that can be taken away, and a listener that writes down what it gets.

They live in a loop with a `MockClock`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import trio

from rocketpy import ConsumeFromWhere, ConsumeResult, MessageExt, MessageModel, MessageQueue, PushConsumer
from rocketpy.message import PropertyName
from rocketpy.remoting.memory import MemoryLink, MemoryNetwork
from tests.schedules.history import Delivery, History, Kind
from tests.schedules.plan import MOST_ATTEMPTS, TOPIC, GroupPlan

__all__ = ["Leash", "Member", "World"]


class Leash:
    """The network of one member."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._links: list[MemoryLink] = []
        self.local_ip = network.local_ip
        self.listen = network.listen
        self.gone = False

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        if self.gone:
            raise OSError("there is no network")
        before = set(self._network.links())
        stream = await self._network.open_stream(host, port)
        self._links += [link for link in self._network.links() if link not in before]
        return stream

    def take_away(self, *, silently: bool) -> None:
        """As the end of a process does, or as a cable that is pulled."""
        self.gone = True
        for link in self._links:
            if link.is_up:
                link.pause() if silently else link.cut()


class Memory:
    """Keeps the offsets of one member of a broadcast."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    async def read(self, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        self._offsets.update(offsets)


class World(NamedTuple):
    """What a member reaches brokers by."""

    namesrv: str
    leash: Leash


class Member:
    """One consumer.

    Attributes:
        dead: Whether its process has ended, or it is cut off for good.
    """

    def __init__(self, name: str, group: GroupPlan, history: History, chance: random.Random, world: World) -> None:
        self.name = name
        self.group = group
        self.dead = False
        self.joined = 0.0
        self._history = history
        self._chance = chance
        self._leash = world.leash
        self._leaving = trio.Event()
        self._over = trio.CancelScope()
        self.consumer = PushConsumer(
            group.name,
            namesrv=world.namesrv,
            network=self._leash,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            max_reconsume_times=MOST_ATTEMPTS,
            consume_message_batch_max_size=group.batch,
            **settings(group.kind, name),
        )
        self.consumer.subscribe(TOPIC, self._listen)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is told to leave, or killed."""
        with self._over:
            async with self.consumer:
                self.joined = trio.current_time()
                task_status.started()
                await self._leaving.wait()
        self.dead = True

    def leave(self) -> None:
        """Close in order."""
        self._leaving.set()

    def kill(self) -> None:
        """End as a process does that is killed: it says nothing any more."""
        self.dead = True
        self._leash.take_away(silently=False)
        self._over.cancel()

    def unplug(self) -> None:
        """Cut it off for good; it does not know."""
        self.dead = True
        self._leash.take_away(silently=True)

    # --- listening ------------------------------------------------------------------------------------

    async def _listen(self, what: MessageExt | list[MessageExt]) -> object:
        messages = what if isinstance(what, list) else [what]
        begun = [self._begin(message) for message in messages]
        if self.group.work:
            await trio.sleep(self._chance.uniform(0, self.group.work))
        good = not self._fails(messages)
        for delivery in begun:
            delivery.ended, delivery.done = trio.current_time(), good
        return None if good else ConsumeResult.RETRY

    def _fails(self, messages: Sequence[MessageExt]) -> bool:
        if self.group.refuses_bad and str(messages[0].body, "ascii") in self._history.bad:
            return True
        first_try = all(message.reconsume_times == 0 for message in messages)
        return first_try and self._chance.random() < self.group.trouble

    def _begin(self, message: MessageExt) -> Delivery:
        delivery = Delivery(
            name=str(message.body, "ascii"),
            group=self.group.name,
            member=self.name,
            place=(message.broker_name, message.queue_id),
            offset=message.queue_offset,
            attempt=message.reconsume_times,
            began=trio.current_time(),
            retried=PropertyName.RETRY_TOPIC in message.properties,
        )
        self._history.deliveries.append(delivery)
        return delivery


def settings(kind: Kind, name: str) -> dict[str, Any]:
    """What makes a consumer one of a kind."""
    made: dict[Kind, Callable[[], dict[str, Any]]] = {
        Kind.CONCURRENT: dict,
        Kind.ORDERLY: lambda: {"orderly": True},
        Kind.BROADCAST: lambda: {"message_model": MessageModel.BROADCASTING, "offset_store": Memory()},
    }
    return made[kind]()
