"""A consume service whose plain listeners run in threads, with what is around it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.calling.consume_concurrently import ConsumeMessageConcurrentlyService
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.consumer.subscription import Subscriptions
from rocketpy.message import MessageExt, MessageQueue
from tests.consumer.helpers import QUEUE, stored_range


class Offsets:
    """An offset store with nobody behind it."""

    def __init__(self) -> None:
        self.table: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        self.table[queue] = offset


class Backs:
    """Takes everything back."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []

    async def send_back(self, message: MessageExt, delay_level: int) -> bool:
        self.messages.append(message)
        return True


class Bench:
    """A service with what is around it."""

    def __init__(self, listener: Any, more: dict[str, Any], **settings: Any) -> None:
        config = PushConsumerConfig(group="billing", namesrv="a:1", **settings)
        subscriptions = Subscriptions("billing", lambda: None)
        for topic, each in {"Orders": listener, **more}.items():
            subscriptions.add(topic, each)
        self.offsets = Offsets()
        self.backs = Backs()
        self.service = ConsumeMessageConcurrentlyService(config, subscriptions, self.offsets, self.backs)  # type: ignore[arg-type]
        self.queue = ProcessQueue(QUEUE, 0)
        self.queues = {"Orders": self.queue, **{topic: ProcessQueue(MessageQueue(topic, "b", 0), 0) for topic in more}}

    def feed(self, count: int, topic: str = "Orders") -> None:
        queue = self.queues[topic]
        messages = stored_range(queue.position, queue.position + count, topic=topic)
        queue.put(messages)
        self.service.submit(queue, messages)

    async def wait_empty(self, topic: str = "Orders") -> None:
        with trio.fail_after(20):
            while len(self.queues[topic]):  # noqa: ASYNC110  real threads, real time
                await trio.sleep(0.001)


@asynccontextmanager
async def bench(listener: Any, more: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[Bench]:
    made = Bench(listener, more or {}, **settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.service.run)
        yield made
        nursery.cancel_scope.cancel()
