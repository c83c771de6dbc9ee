"""The members of a group: each has a network that can be taken away, and a listener that writes down what it gets.

They live in a loop with a `MockClock`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import trio

from rocketpy import (
    ClientClosedError,
    ConsumeFromWhere,
    ConsumeResult,
    LitePullConsumer,
    MessageExt,
    MessageModel,
    MessageQueue,
    PushConsumer,
    RocketMQError,
)
from rocketpy.message import PropertyName
from rocketpy.remoting.memory import MemoryLink, MemoryNetwork
from tests.schedules.history import Delivery, Fault, History, Kind
from tests.schedules.plan import DISTURBED, MOST_ATTEMPTS, TOPIC, GroupPlan

__all__ = ["Leash", "Member", "World", "member_of"]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


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
        stream = await self._network.open_stream(host, port)
        # Others may open links at the same moment; the address tells which is this one.
        mine = stream.local_address
        self._links += [link for link in self._network.links(mine) if link.client == mine]
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


class Member(ABC):
    """One consumer, of a kind that a class below says.

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
        self.consumer = self._make({"namesrv": world.namesrv, "network": world.leash, "consume_from_where": FIRST})

    @abstractmethod
    def _make(self, settings: dict[str, Any]) -> PushConsumer | LitePullConsumer:
        """A consumer that is not started, with what it subscribes."""

    async def _work(self) -> None:
        """What its program does besides: nothing, where a listener does it all."""
        await trio.sleep_forever()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is told to leave, or killed."""
        with self._over:
            async with self.consumer:
                self.joined = trio.current_time()
                task_status.started()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._work)
                    await self._leaving.wait()
                    nursery.cancel_scope.cancel()
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


class Listening(Member):
    """A push consumer, with its listener."""

    def _make(self, settings: dict[str, Any]) -> PushConsumer:
        consumer = PushConsumer(
            self.group.name,
            max_reconsume_times=MOST_ATTEMPTS,
            consume_message_batch_max_size=self.group.batch,
            **settings,
            **settings_of(self.group.kind),
        )
        consumer.subscribe(TOPIC, self._listen)
        return consumer

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


class Polling(Member):
    """A lite pull consumer, with the loop of its program.

    It commits by itself, by hand after what it has polled, or by acknowledging in any order.
    """

    def _make(self, settings: dict[str, Any]) -> LitePullConsumer:
        self._lite = LitePullConsumer(self.group.name, auto_commit=self.group.commits != "hand", **settings)
        self._lite.subscribe(TOPIC)
        return self._lite

    async def _work(self) -> None:
        with suppress(ClientClosedError):
            while True:
                await self._work_on(await self._lite.poll(self.group.batch))
                if trio.current_time() < DISTURBED and self._chance.random() < self.group.seeks:
                    await self._go_back()

    async def _work_on(self, messages: list[MessageExt]) -> None:
        begun = [self._begin(message) for message in messages]
        pairs = list(zip(messages, begun, strict=True))
        self._chance.shuffle(pairs)
        for message, delivery in pairs:
            if self.group.work:
                await trio.sleep(self._chance.uniform(0, self.group.work))
            delivery.ended, delivery.done = trio.current_time(), True
            if self.group.commits == "ack":
                self._lite.ack(message)
        if messages and self.group.commits == "hand":
            with suppress(RocketMQError):  # it is told again with the next one
                await self._lite.commit()

    async def _go_back(self) -> None:
        """Seek a few messages back in a queue."""
        if not self._lite.assignment:
            return
        queue = self._chance.choice(self._lite.assignment)
        back = max(0, self._lite.position(queue) - self._chance.randrange(5))
        self._history.faults.append(Fault(trio.current_time(), "seek", self.group.name))
        with suppress(RocketMQError):  # the broker is away, or the queue
            await self._lite.seek(queue, back)


def member_of(name: str, group: GroupPlan, history: History, chance: random.Random, world: World) -> Member:
    """One of a group."""
    kind = Polling if group.kind is Kind.POLLED else Listening
    return kind(name, group, history, chance, world)


def settings_of(kind: Kind) -> dict[str, Any]:
    """What makes a consumer one of a kind."""
    made: dict[Kind, Callable[[], dict[str, Any]]] = {
        Kind.CONCURRENT: dict,
        Kind.ORDERLY: lambda: {"orderly": True},
        Kind.BROADCAST: lambda: {"message_model": MessageModel.BROADCASTING, "offset_store": Memory()},
    }
    return made[kind]()
