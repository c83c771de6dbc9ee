"""Producer: sends messages, on trio. Plays the part of DefaultMQProducer."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from rocketpy.admin.sharing import HasAdmin
from rocketpy.client.client_id import new_unique_ids
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import Lifecycle
from rocketpy.client.preparing.outgoing import Preparer
from rocketpy.client.runnable import Runnable
from rocketpy.client.send_hooks import SendHooks
from rocketpy.client.sends import send_drivers
from rocketpy.client.sends.send_oneway import send_oneway
from rocketpy.client.sends.sending import SendCore
from rocketpy.client.shared_client import check_shared
from rocketpy.config import ProducerConfig
from rocketpy.logs import get_logger
from rocketpy.producer.choosing import choice_of
from rocketpy.producer.figures import Figures
from rocketpy.producer.lingering import TaskSends
from rocketpy.producer.outside import Outside
from rocketpy.producer.requesting import Requester
from rocketpy.producer.roles import SendingRole
from rocketpy.producer.running import Running
from rocketpy.producer.send_count import SendCount
from rocketpy.producer.send_many import BATCH_SIZE, OnFailure, SendMany, call_now, send_all
from rocketpy.producer.surface import ON_TRIO, ProducerSurface
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from datetime import timedelta

    import trio

    from rocketpy.client.roles import ProducerRole
    from rocketpy.client.sends.selection import QueueSelector
    from rocketpy.config.typed import ProducerSettings
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.producer.statistics import ProducerStatistics
    from rocketpy.producer.transacting import Transactions
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendManyResult, SendResult

__all__ = ["Producer"]

logger = get_logger(__name__)


class Producer(HasAdmin, Runnable):
    """Sends messages: ``async with rocketpy.Producer("orders", namesrv="127.0.0.1:9876") as producer:``.

    Any task of its trio loop may use it. Closing waits for the sends that are under way.

    Args:
        group: name of the producer group, which all producers of one application share.
        config: the settings; `group` and `fields` override them.
        client: a client to share; without it, the producer makes one of its own.
        network: makes the connections of a client of its own.
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
        _surface: ProducerSurface = ON_TRIO,
        **fields: Unpack[ProducerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["_surface"] = _surface
        check_shared(client, network)
        base = config if config is not None or client is None else client.config
        self.config = self._settings.of(base, group=group, **fields)
        self._owns_client = client is None
        self._network = network
        self._surface = _surface
        client = self._new_client() if client is None else client
        self._lifecycle = Lifecycle(f"producer {self.config.group}")
        self._unique_ids = new_unique_ids(client.network.local_ip())
        self._preparer = Preparer(self.config, self._unique_ids)
        self._sends = SendCount(self._lifecycle)
        self._stack: AsyncExitStack | None = None
        self._nursery: trio.Nursery | None = None
        self._put_together(client)

    def _new_client(self) -> MQClientInstance:
        made = MQClientInstance(self.config, network=self._network)
        if SendHooks.of(self.config) is not None:
            made.has_hooks_of_users = True  # hooks run in its loop too, and must not delay other clients
        return made

    def _put_together(self, client: MQClientInstance) -> None:
        """Make the parts that belong to a client: when the producer is made, and after a start that failed."""
        self.client = client
        core = self._core = SendCore(client, self.config)
        preparer, lifecycle, sends = self._preparer, self._lifecycle, self._sends
        requests = Requester(core, preparer, lifecycle, sends)
        figures = Figures(core, sends, self._surface)
        transactions = self._transactions = self._new_transactions(core)
        made = Outside(core, preparer, lifecycle, sends, requests, figures, transactions)
        self.outside = made  # for the other surfaces
        self._lingering = None if made.accumulator is None else TaskSends(made, made.accumulator)

    def _new_transactions(self, core: SendCore) -> Transactions | None:
        """The part that makes transactions; None for a producer that does not."""
        return None

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

    def statistics(self) -> ProducerStatistics:
        """Return the statistics of the sends. From any thread, and in every state: zeros before it is started."""
        return self.outside.figures.statistics()

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
                running = Running(self.outside)
                self._nursery = await running.open(stack)
                running.register(self._new_role(), stack, self._nursery)
                self._stack = stack.pop_all()
        except BaseException:  # cancellation too: what did not start may be started again
            if self._owns_client:
                self._put_together(self._new_client())  # the old client was closed on the way out, for good
            self._lifecycle.failed()
            raise
        self._lifecycle.opened()
        return self

    def _new_role(self) -> ProducerRole:
        """What the client sees of the producer, as it opens."""
        return SendingRole(self._core, self._lifecycle)

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
        `queue` and `selector` go to the next queue in turn. If an attempt fails, the next one goes to another broker,
        even if the outcome is unknown, so it may be stored twice. One with a sharding key, a `queue` or a `selector` is
        tried again at its queue only, if it was certainly not stored. There are up to `retry_times_when_send_failed`
        more attempts, all within `timeout`. One that is cancelled or times out may still be stored.

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
            SendError: several attempts failed.
        """
        self._lifecycle.check_here()
        if self._lingering is not None:
            message = self._preparer.filled(message)
            if (head := self.outside.items.head(message)) is not None:
                choice = choice_of(message, queue, selector, arg)
                return await self._lingering.send(message, head, choice, self.outside.seconds(timeout))
        outgoing, config, sends = self._preparer.one(message), self.config, self._sends
        choice = None
        if queue is not None or selector is not None or arg is not None:
            choice = choice_of(message, queue, selector, arg)
        tries = 1 + config.retry_times_when_send_failed
        seconds = config.send_timeout if timeout is None else self.outside.seconds(timeout)
        sends.total += 1
        try:
            return await send_drivers.send(self._core, outgoing, choice, tries, seconds)
        finally:
            sends.total -= 1
            if not sends.total:
                sends.none_left()

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
        sends = self._sends
        sends.total += 1
        try:
            return await send_drivers.send(self._core, outgoing, choice, tries, seconds)
        finally:
            sends.total -= 1
            if not sends.total:
                sends.none_left()

    def batches(self, messages: Iterable[Message], *, max_size: int | None = None) -> list[list[Message]]:
        """Split messages of one topic, in their order, into batches for `send_batch`.

        Nothing is sent, and errors of all messages are raised here. Values are encoded here, once. To send many
        messages without their results, `send_many` is faster.

        Args:
            messages: any number of messages. A message that is too large for a batch of several is a batch by itself.
            max_size: the size of an encoded batch in bytes, with all properties; `max_message_size` when None.

        Raises:
            ConfigError: the messages cannot be in one batch, or a body is larger than `max_message_size`.
            SerializationError: a value cannot be encoded.
        """
        return self._preparer.batches(messages, max_size)

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

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> MessageExt:
        """Send a message and wait for the reply of the consumer that gets it.

        The consumer makes the reply with `create_reply_message` and sends it with a producer. The message is sent and
        retried as in `send`, so a consumer may get it twice; the first reply counts. A reply that arrives after
        `timeout` is dropped and logged.

        Args:
            message: the message.
            queue: the queue, as in `send`.
            selector: chooses the queue, as in `send`.
            arg: passed to the selector.
            timeout: seconds for sending the message and waiting for the reply, `send_timeout` when None.

        Returns:
            The reply.

        Raises:
            ReplyTimeoutError: the message was sent, and no reply arrived in time.
            TooManyRequestsError: too many requests wait for replies.
            ClientClosedError: the producer was closed before a reply arrived.
            RocketMQError: the message could not be sent, as in `send`.
        """
        self._lifecycle.check_here()
        requests = self.outside.requests
        asked = requests.prepare(message, timeout)
        choice = choice_of(message, queue, selector, arg)
        return await requests.ask(asked, choice, self.config.retry_times_when_send_failed)

    async def recall(self, topic: str, handle: str | None, *, timeout: float | timedelta | None = None) -> str:
        """Recall a message that was sent with `delay` or `deliver_at` and is not due yet.

        Any producer may recall it. Brokers permit recalls only with `recallMessageEnable=true`. The broker does not
        report whether it still had the message, but it does not deliver the message after that.

        Args:
            topic: the topic of the message.
            handle: `recall_handle` of the result of the send. None, which it is for messages that cannot be recalled,
                is refused.
            timeout: seconds for the whole call, `send_timeout` when None.

        Returns:
            The unique id of the message.

        Raises:
            ConfigError: the handle is not valid, or belongs to another topic; nothing was sent.
            RouteNotFoundError: the broker that has the message is not known.
            NoPermissionError: the broker does not permit recalls.
            IllegalOperationError: the message is already due, or belongs to another broker.
            RequestCodeNotSupportedError: the broker is older than RocketMQ 5.3.
            BrokerError: the broker refused for another reason.
            TransportError, RequestTimeoutError: no answer; whether the message is recalled is unknown.
        """
        from rocketpy.client.recalling import recall  # few producers recall messages

        self._lifecycle.check_here()
        seconds = self.outside.seconds(timeout)
        tracer = self._core.tracer
        return await recall(self.client, self.config.group, topic, handle, timeout=seconds, tracer=tracer)

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
