"""Producer: sends messages, on trio. Plays the part of DefaultMQProducer."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import trio

from rocketpy.client import send_drivers
from rocketpy.client.client_id import new_unique_ids
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import Lifecycle
from rocketpy.client.outgoing import Preparer
from rocketpy.client.runnable import Runnable
from rocketpy.client.send_hooks import SendHooks
from rocketpy.client.send_oneway import send_oneway
from rocketpy.client.sending import SendCore
from rocketpy.client.sharing import check_shared
from rocketpy.config import ProducerConfig
from rocketpy.logs import get_logger
from rocketpy.producer.choosing import choice_of
from rocketpy.producer.closing import PATIENCE, say_waiting
from rocketpy.producer.lingering import TaskSends
from rocketpy.producer.outside import Outside
from rocketpy.producer.recalling import Recalling
from rocketpy.producer.requesting import Requesting
from rocketpy.producer.send_many import BATCH_SIZE, OnFailure, SendMany, call_now, send_all
from rocketpy.producer.splitting import Splitting
from rocketpy.producer.statistics import Observed
from rocketpy.services import open_services
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.client.selection import QueueSelector
    from rocketpy.config.typed import ProducerSettings
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.local_half import AsyncCaller
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendManyResult, SendResult

__all__ = ["Producer"]

logger = get_logger(__name__)


class Producer(Requesting, Recalling, Splitting, Observed, Runnable):
    """Sends messages: ``async with rocketpy.Producer("orders", namesrv="127.0.0.1:9876") as producer:``.

    Any task of its trio loop may use it. Closing waits for the sends that are under way.

    Args:
        group: name of the producer group, which all producers of one application share.
        config: the settings; `group` and `fields` override them.
        client: a client to share; without it, the producer makes one of its own.
        network: makes the connections of a client of its own.
        async_caller: calls async functions of the user's; for other surfaces.
        fields: settings by name, as in `ProducerConfig`.

    Raises:
        ConfigError: a setting cannot be used.
    """

    _settings: ClassVar[type[ProducerConfig]] = ProducerConfig

    def __init__(
        self,
        group: str | None = None,
        *,
        config: ProducerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        async_caller: AsyncCaller | None = None,
        **fields: Unpack[ProducerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["async_caller"] = self._async_caller = async_caller
        check_shared(client, network)
        base = config if config is not None or client is None else client.config
        self.config = self._settings.of(base, group=group, **fields)
        self._owns_client = client is None
        self._network = network
        self.client = self._new_client() if client is None else client
        self._lifecycle = Lifecycle(f"producer {self.config.group}")
        self._core = SendCore(self.client, self.config)
        self._unique_ids = new_unique_ids(self.client.network.local_ip())
        self._preparer = Preparer(self.config, self._unique_ids)
        self._under_way = 0
        self._idle = trio.Event()
        self._stack: AsyncExitStack | None = None
        self._nursery: trio.Nursery | None = None
        self.outside = self._for_outside()

    def _new_client(self) -> MQClientInstance:
        made = MQClientInstance(self.config, network=self._network)
        if SendHooks.of(self.config) is not None:
            made.has_hooks_of_users = True  # hooks run in its loop too, and must not delay other clients
        return made

    def _for_outside(self) -> Outside:
        made = Outside(self.client, self._core, self._preparer, self._lifecycle, self._one_more, self._one_less)
        self._lingering = None if made.accumulator is None else TaskSends(made, made.accumulator)
        return made

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<{type(self).__name__} {self.config.group} {self._lifecycle.shown.value}>"

    def reopen(self) -> Self:
        """In the child of a fork, make it as new: ``async with producer.reopen():``. A shared client goes first.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        self._make_again(crossed_fork=self._lifecycle.crossed_fork)
        return self

    # --- life -----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self._lifecycle.is_open

    async def __aenter__(self) -> Self:
        """Open the producer.

        Raises:
            ClientClosedError: it was started before, or the shared client is not open.
            ConfigError: the shared client has a producer of this group already.
        """
        if not self._owns_client:
            self.client.check_here()
        self._lifecycle.begin()
        try:
            async with AsyncExitStack() as stack:
                if self._owns_client:
                    await stack.enter_async_context(self.client)
                self._core.open()
                if self.config.enable_msg_trace:
                    from rocketpy.trace.sends import traced_sends  # few producers are traced

                    self._core.trace_with(await stack.enter_async_context(traced_sends(self.client, self.config)))
                self._nursery = await stack.enter_async_context(open_services())
                self.outside.open(self._nursery)
                if self.config.send_latency_enable and self.config.start_detector_enable:
                    from rocketpy.client.detector import Detector  # few producers have one

                    self._nursery.start_soon(Detector(self.client, self._core.fault, self.config).run)
                self.client.register_producer(self.config.group, self)
                stack.push_async_callback(self._unregister)
                stack.push_async_exit(self._finish_sends)
                if self.config.on_statistics is not None:
                    stack.push_async_callback(self._begin_reports(self._nursery))
                self._stack = stack.pop_all()
        except BaseException:  # cancellation too: what did not start may be started again
            if self._owns_client:
                # The old client was closed on the way out, for good.
                self.client = self._new_client()
                self._core = SendCore(self.client, self.config)
                self.outside = self._for_outside()
            self._lifecycle.failed()
            raise
        self._lifecycle.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close it: refuse new sends, wait for those in flight, and unregister from the brokers."""
        stack, self._stack = self._stack, None
        if stack is None:
            return None
        # If a shared client was closed first, this is not the first call. The stack is unwound in any case.
        self._lifecycle.closing()
        try:
            return await stack.__aexit__(kind, error, traceback)
        finally:
            self._lifecycle.closed()

    async def _finish_sends(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The first step of closing. It is on the stack, so that the other steps follow if this one is cancelled."""
        accumulator = self.outside.accumulator
        try:
            if accumulator is not None:
                accumulator.close()
            if error is None and self._under_way:
                with trio.move_on_after(PATIENCE) as quiet:
                    await self._idle.wait()
                if quiet.cancelled_caught:
                    say_waiting(self.config.group, self._under_way, None)
                    await self._idle.wait()
        finally:
            if accumulator is not None:
                accumulator.abandon()
            self._core.close()
            self.client.requests.end(self)

    async def _unregister(self) -> None:
        with trio.move_on_after(self.config.close_timeout, shield=True):
            await self.client.unregister_producer(self.config.group)

    def on_route_changed(self, topic: str) -> None:
        """Called by the client."""
        self._core.forget_gone_brokers()

    def client_closing(self) -> None:
        """Called by a shared client that closes before the producer does."""
        self._lifecycle.closing()

    # --- sending --------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message and wait until a broker has stored it.

        A message with a sharding key goes to the queue of that key, after earlier sends with that key. Others without
        `queue` and `selector` go to the next queue in turn. If a try fails, the next one goes to another broker, even
        if the outcome is unknown, so it may be stored twice. One with a sharding key, a `queue` or a `selector` is
        tried again at its queue only, if it was certainly not stored. There are up to `retry_times_when_send_failed`
        more tries, all within `timeout`. One that is cancelled or times out may still be stored.

        Args:
            message: the message.
            queue: the queue. Concurrent sends to it keep no order.
            selector: chooses the queue, given the queues, the message and `arg`; called once. No order there either.
            arg: passed to the selector.
            timeout: seconds for the whole call, up to 600, or `math.inf`; `send_timeout` when None.

        Raises:
            ConfigError, SerializationError: the message cannot be sent as it is; nothing was sent.
            RouteNotFoundError: no broker takes messages of this topic; the subclass says why.
            BrokerError: the broker refused the message.
            RequestTimeoutError, TransportError: no answer; unless `nothing_sent`, the message may be stored.
            SendError: several tries failed.
        """
        self._lifecycle.check_here()
        if self._lingering is not None:
            message = self._preparer.filled(message)
            if (head := self.outside.items.head(message)) is not None:
                choice = choice_of(message, queue, selector, arg)
                return await self._lingering.send(message, head, choice, self.outside.seconds(timeout))
        outgoing, config = self._preparer.one(message), self.config
        choice = None
        if queue is not None or selector is not None or arg is not None:
            choice = choice_of(message, queue, selector, arg)
        tries = 1 + config.retry_times_when_send_failed
        seconds = config.send_timeout if timeout is None else self.outside.seconds(timeout)
        self._under_way += 1
        try:
            return await send_drivers.send(self._core, outgoing, choice, tries, seconds)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none_left()

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message without asking for an answer. Waits only while the connection accepts no more bytes.

        The message is tried again only if nothing was written.

        Args:
            message: what to send.
            queue: where it goes, a queue of the topic.
            selector: chooses the queue, a function of the topic's queues, the message and `arg`.
            arg: is passed to the selector.

        Raises:
            ConfigError: the message cannot be sent as it is.
            RouteNotFoundError, TransportError: the message could not be written.
        """
        self._lifecycle.check_here()
        outgoing = self._preparer.one(message)
        choice = choice_of(message, queue, selector, arg)
        tries = 1 + self.config.retry_times_when_send_failed
        await send_oneway(self._core, outgoing, choice=choice, tries=tries, timeout=self.outside.seconds(None))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one frame: all of them are stored, one after the other, or none.

        Args:
            messages: messages of one topic, without delay.
            queue: where they go; None leaves it to the sharding key or to the producer.
            timeout: seconds for the whole call, `send_timeout` when None.

        Returns:
            The result of the batch, with all ids, joined by commas, and the offset of the first message.

        Raises:
            ConfigError: the messages cannot be in one batch (topic, wait_store_ok, sharding key, delay), or are too
                large together; see `batches`.
            RocketMQError: as in `send`.
        """
        self._lifecycle.check_here()
        outgoing = self._preparer.batch(messages)
        choice = choice_of(outgoing.message, queue, None, None)
        config = self.config
        tries = 1 + config.retry_times_when_send_failed
        seconds = config.send_timeout if timeout is None else self.outside.seconds(timeout)
        self._under_way += 1
        try:
            return await send_drivers.send(self._core, outgoing, choice, tries, seconds)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._none_left()

    async def send_many(
        self,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        batch_size: int = BATCH_SIZE,
        timeout: float | timedelta | None = None,
        on_failure: OnFailure | None = None,
    ) -> SendManyResult:
        """Send any number of messages in frames, several at a time, and wait until brokers have stored all of them.

        A frame has messages of one topic, and is sent when it is full or the messages end. Messages with a sharding key
        are collected by the queue of that key, and their frames are sent one at a time, in order; all other frames are
        in flight together and keep no order. Delayed messages are sent by themselves.
        `back_pressure_for_async_send_num` and `back_pressure_for_async_send_size` bound the messages in flight. Frames
        are retried by the rules of `send`; those with sharding keys only at their queue, and only if they were
        certainly not stored.

        Args:
            messages: read only as fast as there is room. Each must be an object of its own, because it may be sent
                after the next one is read.
            batch_size: the largest number of messages in a frame; at most half of the messages that may be in flight.
            timeout: seconds for each frame, `send_timeout` when None.
            on_failure: called for each frame that failed, while the others are still sent. It is called where
                `send_many` was called; if it raises, `send_many` ends.

        Returns:
            Counts of what was sent.

        Raises:
            SendManyError: a frame was not acknowledged. It says which messages were in it, and why. The other frames in
                flight have ended by then, and nothing more is sent.
            ConfigError: an argument cannot be used; nothing was sent.
            ClientClosedError: the producer is not open.
        """
        self._lifecycle.check_here()
        many = SendMany(self.outside, call_now, batch_size=batch_size, timeout=timeout, on_failure=on_failure)
        return await send_all(many, messages)

    def _one_more(self) -> None:
        """A send has begun."""
        self._under_way += 1

    def _one_less(self) -> None:
        """A send has ended."""
        self._under_way -= 1
        if not self._under_way:
            self._none_left()

    def _none_left(self) -> None:
        """The last send that was under way has ended: a producer that closes has waited for it."""
        if not self._lifecycle.is_open:
            self._idle.set()

    # --- topics ---------------------------------------------------------------------------------------

    async def queues(self, topic: str, *, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be written, by broker name and number.

        Args:
            topic: its name.
            timeout: seconds for the whole call, `send_timeout` when None.

        Raises:
            RouteNotFoundError: there are none; the subclass says why.
            ConfigError: this is no topic.
        """
        self._lifecycle.check_here()
        check_topic(topic)
        info = await self.client.routes.ensure(topic, timeout=self.outside.seconds(timeout))
        return info.queues

    async def create_topic(
        self, topic: str, *, queues: int | None = None, timeout: float | timedelta | None = None
    ) -> None:
        """Create a topic on every registered broker, or change its queues.

        Fewer queues than before are fewer to send to: all that a broker has can still be read, and their messages are
        delivered. Other producers notice with their next look at the routes (`poll_name_server_interval`).

        Args:
            topic: its name.
            queues: queues on each broker. When None, `default_topic_queue_nums` on brokers that do not have the topic,
                and no change on those that do.
            timeout: seconds for everything, `send_timeout` when None.

        Raises:
            ConfigError: the name is not one of a topic.
            RouteNotFoundError: no name server answered, or no broker is registered; the subclass says which.
            BrokerError: a broker refused.
        """
        from rocketpy.client import topics  # few producers make topics: the others do not load what it takes

        self._lifecycle.check_here()
        await topics.create_topic(
            self.client,
            topic,
            queues=queues,
            default_queues=self.config.default_topic_queue_nums,
            key=self.config.create_topic_key,
            timeout=self.outside.seconds(timeout),
        )
