"""Producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, final

from rocketpy.aio.bridge import Bridge
from rocketpy.aio.lifetime import Lifetime
from rocketpy.client.sharing import trio_client_of
from rocketpy.producer import Producer as TrioProducer
from rocketpy.producer.chunks import chunks_async
from rocketpy.producer.many import BATCH_SIZE, Many, OnFailure
from rocketpy.producer.pending import PendingSend

if TYPE_CHECKING:
    from rocketpy.aio.client import MQClientInstance
    from rocketpy.client.selection import QueueSelector
    from rocketpy.config import ProducerConfig
    from rocketpy.message import Message, MessageQueue
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendManyResult, SendResult

__all__ = ["Producer"]


@final
class Producer(Lifetime[TrioProducer]):
    """Sends messages: ``async with rocketpy.aio.Producer("orders", namesrv="127.0.0.1:9876") as producer:``.

    Arguments and methods are those of `rocketpy.Producer`. Any task of the loop in which it was entered may use it;
    cancelling one that awaits a send leaves open whether the message is stored. Selectors are called in the background
    thread.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: ProducerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Any,
    ) -> None:
        shared = trio_client_of(client, "rocketpy.aio")
        inner = TrioProducer(group, config=config, client=shared, network=network, **fields)
        super().__init__(inner, Bridge(f"producer {inner.config.group}"), needs=client)

    @property
    def config(self) -> ProducerConfig:
        """The settings."""
        return self._inner.config

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self._inner.is_open

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message and wait until a broker has stored it. See `rocketpy.Producer.send`."""
        bridge, inner = self._bridge, self._inner
        bridge.check()
        return await bridge.run(PendingSend(inner, inner.prepare(message), queue, selector, arg, timeout))

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message once and do not ask what becomes of it. See `rocketpy.Producer.send_oneway`."""
        await self._call(self._inner.send_oneway, message, queue=queue, selector=selector, arg=arg)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send several messages of one topic in one frame. See `rocketpy.Producer.send_batch`."""
        return await self._call(self._inner.send_batch, messages, queue=queue, timeout=timeout)

    async def send_many(
        self,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        batch_size: int = BATCH_SIZE,
        timeout: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> SendManyResult:
        """Send any number of messages in frames, and wait until all are stored. See `rocketpy.Producer.send_many`.

        The messages are taken and `on_failure` is called in the loop of the caller.
        """
        bridge = self._bridge
        bridge.check()
        self._inner.check_open()
        many = Many(self._inner, bridge.portal.post, batch_size=batch_size, timeout=timeout, on_failure=on_failure)
        try:
            async with aclosing(chunks_async(messages, many)) as parts:
                async for part in parts:
                    await asyncio.sleep(0)
                    for step in many.feed(part):
                        await bridge.call(step)
            for step in many.finish():
                await bridge.call(step)
        except Exception as error:
            await bridge.call(many.stop, error)
            raise
        finally:
            bridge.portal.post(many.abort)
        return many.result()

    async def queues(self, topic: str, *, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be written, by broker name and number."""
        return await self._call(self._inner.queues, topic, timeout=timeout)

    async def create_topic(self, topic: str, *, queues: int | None = None, timeout: float | None = None) -> None:
        """Create a topic on every broker that creates topics. See `rocketpy.Producer.create_topic`."""
        await self._call(self._inner.create_topic, topic, queues=queues, timeout=timeout)
