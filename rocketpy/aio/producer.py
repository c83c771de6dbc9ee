"""Producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakMethod

from rocketpy.aio.bridge import Bridge
from rocketpy.aio.calls import LoopCaller
from rocketpy.aio.direct import DirectSends
from rocketpy.aio.has_admin import HasAdmin
from rocketpy.aio.lifetime import Lifetime
from rocketpy.aio.lingering import LoopSends
from rocketpy.client.shared_client import trio_client_of
from rocketpy.producer import Producer as TrioProducer
from rocketpy.producer.choosing import Fixed, choice_of, fixed
from rocketpy.producer.chunks import chunks_async
from rocketpy.producer.closing import PATIENCE, say_waiting
from rocketpy.producer.send_many import BATCH_SIZE, OnFailure, SendMany
from rocketpy.producer.surface import ProducerSurface

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.aio.client import MQClientInstance
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.client.sends.selection import QueueSelector
    from rocketpy.config import ProducerConfig
    from rocketpy.config.typed import ProducerSettings
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.producer.statistics import ProducerStatistics
    from rocketpy.producer.terms import Terms
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendManyResult, SendResult

__all__ = ["Producer"]


class Producer(HasAdmin, Lifetime[TrioProducer]):
    """Sends messages: ``async with rocketpy.aio.Producer("orders", namesrv="127.0.0.1:9876") as producer:``.

    Arguments and methods are those of `rocketpy.Producer`. Any task of the loop in which it was entered may use it;
    cancelling one that awaits a send leaves open whether the message is stored. Selectors are called in that loop.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: ProducerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Unpack[ProducerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        shared = trio_client_of(client, "rocketpy.aio")
        bridge = Bridge("producer")
        inner = self._make_inner(group, bridge, config=config, client=shared, network=network, **fields)
        bridge.what, bridge.client = f"producer {inner.config.group}", inner.client
        super().__init__(inner, bridge, needs=client)
        self._direct = DirectSends(inner, self._bridge)
        self._lingering = LoopSends(self._bridge)

    def _make_inner(self, group: str | None, bridge: Bridge, **arguments: Any) -> TrioProducer:
        """The producer behind this one."""
        surface = ProducerSurface(async_caller=LoopCaller(bridge), statistics=WeakMethod(self.statistics))
        return TrioProducer(group, _surface=surface, **arguments)

    @property
    def config(self) -> ProducerConfig:
        """The settings."""
        return self._inner.config

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self._inner.is_open

    def statistics(self) -> ProducerStatistics:
        """Return the statistics of the sends. See `rocketpy.Producer.statistics`."""
        return self._inner.outside.figures.statistics(self._direct.under_way + self._lingering.under_way)

    @property
    def _is_waited_for(self) -> bool:
        return self._inner.outside.is_waited_for

    async def start(self) -> None:
        """Open it, for the running loop; the same as entering it with `async with`.

        Raises:
            ClientClosedError: it was started before, or was closed meanwhile.
            ConfigError: it belongs to another loop.
        """
        await super().start()
        self._direct.open()

    async def _close(self, error: BaseException | None) -> None:
        bridge, direct = self._bridge, self._direct
        if error is None and bridge.opened is not None and not bridge.crossed_fork:
            bridge.check()
            direct.outside.stop_accepting()
            telling = bridge.loop.call_later(PATIENCE, self._say_waiting)
            try:
                if direct.outside.accumulator is not None:
                    direct.outside.accumulator.hurry()
                await self._lingering.wait_idle()
                await direct.wait_idle()
            except BaseException as cancelled:
                await super()._close(cancelled)
                raise
            finally:
                telling.cancel()
        await super()._close(error)
        if error is None and not bridge.crossed_fork:
            await direct.wait_connected()

    def _say_waiting(self) -> None:
        say_waiting(self._inner.config.group, self._direct.under_way + self._lingering.under_way, None)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message and wait until a broker has stored it. See `rocketpy.Producer.send`.

        The selector is called in the loop of the caller.
        """
        self._bridge.check()
        direct, config = self._direct, self._inner.config
        if direct.outside.accumulator is not None:
            message = direct.outside.filled(message)
            if (head := direct.outside.head(message)) is not None:
                seconds = self._inner.outside.seconds(timeout)
                deadline, retries = direct.outside.core.clock() + seconds, config.retry_times_when_send_failed
                chosen = await self._queue_of(message, queue, selector, arg, seconds)
                return await self._lingering.send(direct.outside, message, head, chosen, seconds, deadline, retries)
        outgoing = direct.outside.prepare(message)
        seconds = config.send_timeout if timeout is None else self._inner.outside.seconds(timeout)
        if queue is None and selector is None and arg is None:
            terms = direct.outside.terms(outgoing, None, seconds, config.retry_times_when_send_failed)
        else:
            terms = await self._chosen(outgoing, queue, selector, arg, seconds, config.retry_times_when_send_failed)
        if terms.key is None:
            return await direct.send(outgoing, terms)
        return await direct.send_in_turn(outgoing, terms)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> MessageExt:
        """Send a message and wait for the reply of the consumer that gets it. See `rocketpy.Producer.request`.

        The selector is called in the loop of the caller.
        """
        self._bridge.check()
        requests, retries = self._inner.outside.requests, self._inner.config.retry_times_when_send_failed
        asked = requests.prepare(message, timeout)
        terms = await self._chosen(asked.outgoing, queue, selector, arg, asked.timeout, retries)
        return await self._bridge.call(requests.ask, asked, terms.choice, retries)

    async def _chosen(
        self,
        outgoing: Outgoing,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: Any,
        seconds: float,
        retries: int,
    ) -> Terms:
        """The terms of a send whose queue the caller chooses; calls the selector."""
        message = outgoing.message
        choice = choice_of(message, queue, selector, arg)
        terms = self._direct.outside.terms(outgoing, choice, seconds, retries)
        if selector is not None and choice is not None:
            terms.choice = fixed(message, choice(await self._route_of(message.topic, seconds)))
        return terms

    async def _queue_of(
        self,
        message: Message,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
        arg: Any,
        seconds: float,
    ) -> MessageQueue | None:
        """The queue that the caller chooses, None for any; calls the selector."""
        choice = choice_of(message, queue, selector, arg)
        if choice is None or isinstance(choice, Fixed):
            return None if choice is None else choice.queue
        return fixed(message, choice(await self._route_of(message.topic, seconds))).queue

    async def _route_of(self, topic: str, seconds: float) -> TopicPublishInfo:
        outside = self._direct.outside
        info = outside.client.routes.publish_info(topic)
        if info is None:
            info = await self._bridge.call(outside.ensure_route, topic, timeout=seconds)
        return info

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message without asking for an answer. See `rocketpy.Producer.send_oneway`."""
        self._bridge.check()
        outside, config = self._direct.outside, self._inner.config
        outgoing = outside.prepare(message)
        terms = await self._chosen(
            outgoing, queue, selector, arg, config.send_timeout, config.retry_times_when_send_failed
        )
        if outside.send_oneway_now(outgoing, terms, self._direct.nowait):
            await asyncio.sleep(0)
        else:
            await self._bridge.call(outside.send_oneway, outgoing, terms)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one frame. See `rocketpy.Producer.send_batch`."""
        self._bridge.check()
        outside, inner = self._direct.outside, self._inner
        outgoing = outside.prepare_batch(messages)
        choice = choice_of(outgoing.message, queue, None, None)
        seconds = inner.outside.seconds(timeout)
        terms = outside.terms(outgoing, choice, seconds, inner.config.retry_times_when_send_failed)
        send = self._direct.send if terms.key is None else self._direct.send_in_turn
        return await send(outgoing, terms)

    def batches(self, messages: Iterable[Message], *, max_size: int | None = None) -> list[list[Message]]:
        """Split messages of one topic into batches for `send_batch`. See `rocketpy.Producer.batches`."""
        return self._inner.batches(messages, max_size=max_size)

    async def send_many(
        self,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        batch_size: int = BATCH_SIZE,
        timeout: float | timedelta | None = None,
        on_failure: OnFailure | None = None,
    ) -> SendManyResult:
        """Send any number of messages in frames, and wait until all are stored. See `rocketpy.Producer.send_many`.

        The messages are read, and `on_failure` is called, in the loop of the caller.
        """
        bridge = self._bridge
        bridge.check()
        self._inner.outside.check_open()
        many = SendMany(
            self._inner.outside, bridge.portal.post, batch_size=batch_size, timeout=timeout, on_failure=on_failure
        )
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

    async def recall(self, topic: str, handle: str | None, *, timeout: float | timedelta | None = None) -> str:
        """Recall a message that is not due yet. See `rocketpy.Producer.recall`."""
        return await self._call(self._inner.recall, topic, handle, timeout=timeout)

    async def queues(self, topic: str, *, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be written, by broker name and number."""
        return await self._call(self._inner.queues, topic, timeout=timeout)

    async def create_topic(
        self, topic: str, *, queues: int | None = None, timeout: float | timedelta | None = None
    ) -> None:
        """Create a topic on every registered broker. See `rocketpy.Producer.create_topic`."""
        await self._call(self._inner.create_topic, topic, queues=queues, timeout=timeout)
