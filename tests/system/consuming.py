"""A cluster in memory, producers and consumers for it, and listeners that remember."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from rocketpy.consumer import LitePullConsumer, PullConsumer
from rocketpy.consumer.push import PushConsumer
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.producer import Producer
from rocketpy.seams import wall_clock, wall_ms
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from rocketpy_broker_sim import LocalCluster
from tests.broker_sim.broker.kit import client_of


class World:
    """A cluster and a producer."""

    def __init__(self, cluster: LocalCluster, producer: Producer) -> None:
        self.cluster = cluster
        self.producer = producer

    def consumer(self, group: str = "billing", **settings: Any) -> PushConsumer:
        """A consumer that is not started."""
        settings = {"namesrv": self.cluster.name_server_addresses, "network": self.cluster.network, **settings}
        return PushConsumer(group, **settings)

    def lite(self, group: str = "billing", **settings: Any) -> LitePullConsumer:
        """A lite pull consumer that is not started."""
        settings = {"namesrv": self.cluster.name_server_addresses, "network": self.cluster.network, **settings}
        return LitePullConsumer(group, **settings)

    def puller(self, group: str = "audit", **settings: Any) -> PullConsumer:
        """A pull consumer that is not started."""
        settings = {"namesrv": self.cluster.name_server_addresses, "network": self.cluster.network, **settings}
        return PullConsumer(group, **settings)

    async def send(self, count: int, *, topic: str = "Orders", start: int = 0, tags: str | None = None) -> list[bytes]:
        """Send messages with numbers for bodies."""
        bodies = [b"%d" % number for number in range(start, start + count)]
        for body in bodies:
            await self.producer.send(Message(topic, body, tags=tags))
        return bodies


@asynccontextmanager
async def world(
    brokers: int = 1, *, topics: Iterable[str] = ("Orders",), queues: int = 4, **settings: Any
) -> AsyncIterator[World]:
    """A cluster in memory with some topics, where the calendar follows the clock of the loop."""
    clock = trio.lowlevel.current_clock()
    began = wall_ms() - round(clock.current_time() * 1000)
    with wall_clock(lambda: began + round(clock.current_time() * 1000)):
        async with _cluster(brokers, topics, queues, settings) as made:
            yield made


@asynccontextmanager
async def _cluster(brokers: int, topics: Iterable[str], queues: int, settings: dict[str, Any]) -> AsyncIterator[World]:
    async with LocalCluster(brokers, network="memory", **settings) as cluster:
        async with Producer("shop", namesrv=cluster.name_server_addresses, network=cluster.network) as producer:
            for topic in topics:
                await producer.create_topic(topic, queues=queues)
            yield World(cluster, producer)


async def reset_group(w: World, group: str = "billing", *, timestamp: int = 0, topic: str = "Orders") -> None:
    """Reset a group at its first broker, as an administrator does: to a time in ms, 0 for the start, -1 for the end."""
    async with client_of(w.cluster.network, w.cluster.brokers[0].address) as admin:
        header = ResetOffsetRequestHeader(group=group, topic=topic, timestamp=timestamp, is_force=True)
        answer = await admin.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
        assert answer.code == 0, answer.remark


class Recorder:
    """A listener that remembers what it got and when; `answer` may decide what it returns."""

    def __init__(self, answer: Callable[[MessageExt], object] = lambda message: None) -> None:
        self.messages: list[MessageExt] = []
        self.times: list[float] = []
        self.answer = answer
        self._arrival = trio.Event()

    def __call__(self, message: MessageExt) -> object:
        self.messages.append(message)
        self.times.append(trio.current_time())
        self._arrival.set()
        return self.answer(message)

    @property
    def bodies(self) -> Counter[bytes]:
        return Counter(message.body for message in self.messages)

    async def wait_count(self, count: int, *, within: float = 60.0) -> None:
        """Wait for that many messages."""
        with trio.fail_after(within):
            while len(self.messages) < count:
                self._arrival = trio.Event()
                await self._arrival.wait()


async def wait_until(condition: Callable[[], object], *, within: float = 60.0) -> None:
    """Wait, in virtual time, until something is so."""
    with trio.fail_after(within):
        while not condition():  # noqa: ASYNC110  whatever it is, it has no event
            await trio.sleep(0.05)


# --- lite pull --------------------------------------------------------------------------------------------


async def drain(consumer: LitePullConsumer, count: int, *, within: float = 60.0) -> list[MessageExt]:
    """Poll until there are so many."""
    got: list[MessageExt] = []
    with trio.fail_after(within):
        while len(got) < count:
            got += await consumer.poll(count - len(got))
    return got


def bodies(messages: list[MessageExt]) -> Counter[bytes]:
    return Counter(message.body for message in messages)


async def committed(consumer: LitePullConsumer) -> list[int | None]:
    return [await consumer.committed(queue) for queue in consumer.assignment]


def queues_of(count: int, topic: str = "Orders") -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in range(count)]
