"""Sends from outside of a producer's loop: from threads, and from loops of asyncio.

They make the first try of a send by themselves, with the core that all tries share, and leave retries to the loop. Any
thread may check and encode messages here; the other methods are for the loop.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rocketpy.client import send_drivers
from rocketpy.client.lifecycle import State
from rocketpy.client.send_oneway import send_oneway
from rocketpy.message import PropertyName
from rocketpy.producer.accumulator import Accumulator
from rocketpy.producer.choosing import fixed
from rocketpy.producer.items import Items
from rocketpy.producer.timeouts import checked_timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    import trio

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.lifecycle import Lifecycle
    from rocketpy.client.outgoing import Outgoing, Preparer
    from rocketpy.client.publish_info import TopicPublishInfo
    from rocketpy.client.sending import Choice, SendCore, Try
    from rocketpy.errors import RocketMQError
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.items import Head
    from rocketpy.results import SendResult

__all__ = ["Outside", "Terms"]

_SHARDING_KEY = PropertyName.SHARDING_KEY


class Terms:
    """The terms of a send.

    Args:
        choice: chooses the queue; None if the producer does.
        tries: the largest number of tries.
        deadline: the deadline on the clock of the client.
        timeout: the timeout in seconds from which the deadline was computed.
        key: topic and sharding key, if the sharding key chooses the queue.
    """

    __slots__ = ("choice", "deadline", "key", "timeout", "tries")

    def __init__(
        self, choice: Choice | None, tries: int, deadline: float, timeout: float, key: tuple[str, str] | None
    ) -> None:
        self.choice = choice
        self.tries = tries
        self.deadline = deadline
        self.timeout = timeout
        self.key = key


class Outside:
    """Sends of one producer that come from outside of its loop.

    Args:
        client: the client of the producer.
        core: the core that all tries share.
        preparer: checks and encodes messages.
        lifecycle: the lifecycle of the producer.
        begun: called in the loop when a send begins there.
        ended: called in the loop when such a send ends.

    Attributes:
        client: the client of the producer.
        core: the core that all tries share.
        items: makes entries of messages that linger.
        accumulator: forms batches of them; None if messages do not linger.
        under_way: sends in the loop that have not ended; for the loop.
    """

    def __init__(
        self,
        client: MQClientInstance,
        core: SendCore,
        preparer: Preparer,
        lifecycle: Lifecycle,
        begun: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self.client = client
        self.core = core
        self._preparer = preparer
        self._lifecycle = lifecycle
        self.under_way = 0
        self._told_begun = begun
        self._told_ended = ended
        self._nursery: trio.Nursery | None = None
        self.items = Items(core.config, preparer)
        self.accumulator = None if core.config.linger is None else Accumulator(core, self, preparer.take_ids)

    def _begun(self) -> None:
        self.under_way += 1
        self._told_begun()

    def _ended(self) -> None:
        self.under_way -= 1
        self._told_ended()

    def open(self, nursery: trio.Nursery) -> None:
        """Set the nursery in which retries run."""
        self._nursery = nursery
        if self.accumulator is not None:
            self.accumulator.start()

    def stop_accepting(self) -> None:
        """The producer closes: it takes no new messages."""
        self._lifecycle.closing()

    # --- any thread ------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Refuse use while the producer is not open.

        Raises:
            ClientClosedError: it is not.
        """
        self._lifecycle.check_open()

    def seconds(self, timeout: float | timedelta | None) -> float:
        """The timeout of a call in seconds, `send_timeout` for None, and no more than clocks and locks can express.

        Raises:
            ConfigError: it is no number of seconds, or so many that milliseconds are meant.
        """
        return self.core.config.send_timeout if timeout is None else checked_timeout(timeout)

    def prepare(self, message: Message) -> Outgoing:
        """Check and encode a message.

        Raises:
            ConfigError: it may not be sent.
            ClientClosedError: the producer is not open.
        """
        self._lifecycle.check_open()
        return self._preparer.one(message)

    def filled(self, message: Message) -> Message:
        """Return the message, or a copy with an encoded body if it has a value.

        Raises:
            SerializationError: the value cannot be encoded.
        """
        return self._preparer.filled(message)

    def head(self, message: Message) -> Head | None:
        """Check a message that may linger; returns None if it must not, or if no message does. Raises as `prepare`."""
        if self.accumulator is None:
            return None
        self._lifecycle.check_open()
        return self.items.head(message)

    def prepare_batch(self, messages: Sequence[Message]) -> Outgoing:
        """Check and encode what travels in one frame. Raises as `prepare`."""
        self._lifecycle.check_open()
        return self._preparer.batch(messages)

    def prepare_frame(self, messages: Sequence[Message]) -> Outgoing:
        """Encode messages that can be in one frame of `send_many`, for `start_send`. Raises as `prepare`."""
        preparer = self._preparer
        return preparer.one(messages[0]) if len(messages) == 1 else preparer.batch(messages, alike=True)

    def terms(self, outgoing: Outgoing, choice: Choice | None, seconds: float, retries: int) -> Terms:
        """Return the terms of a send that begins now."""
        key = None
        if choice is None:
            properties = outgoing.message.properties
            if _SHARDING_KEY in properties:
                key = outgoing.message.topic, properties[_SHARDING_KEY]
        return Terms(choice, 1 + retries, self.core.clock() + seconds, seconds, key)

    # --- the loop --------------------------------------------------------------------------------------

    async def ensure_route(self, topic: str, *, timeout: float) -> TopicPublishInfo:
        """Return the queues of a topic within `timeout` seconds, even of a topic that sending will create.

        Raises:
            RouteNotFoundError: no broker takes messages of it; the subclass says why.
        """
        config = self.core.config
        return await self.client.routes.ensure(
            topic,
            timeout=timeout,
            default_topic=config.create_topic_key,
            default_queue_nums=config.default_topic_queue_nums,
        )

    def start(self, outgoing: Outgoing, terms: Terms, done: send_drivers.Done) -> send_drivers.Cancel:
        """Start a send that already holds the turn of its sharding key; `done` gets the outcome.

        Raises:
            ClientClosedError: the producer was closed before the message was handed over.
        """
        nursery = self._open_nursery()
        self._begun()
        try:
            return send_drivers.start_send(
                self.core,
                outgoing,
                partial(self._done, done),
                nursery=nursery,
                choice=terms.choice,
                tries=terms.tries,
                timeout=max(0.001, terms.deadline - self.core.clock()),
                has_turn=True,
            )
        except BaseException:  # of a hook: a send that has not begun must not count, or closing waits for ever
            self._ended()
            raise

    def resume(
        self, attempt: Try[Any], error: RocketMQError, terms: Terms, done: send_drivers.Done
    ) -> send_drivers.Cancel:
        """Continue a send whose first try was made outside and has failed.

        Raises:
            ClientClosedError: the producer was closed before the message was handed over.
        """
        nursery = self._open_nursery()
        self._begun()
        return send_drivers.resume_send(
            self.core,
            attempt,
            error,
            partial(self._done, done),
            nursery=nursery,
            choice=terms.choice,
            tries=terms.tries,
            deadline=terms.deadline,
            timeout=terms.timeout,
        )

    def _open_nursery(self) -> trio.Nursery:
        """The nursery in which sends run.

        Raises:
            ClientClosedError: a finalizer that interrupted the send has closed the producer.
        """
        if self._lifecycle.state is State.CLOSED:
            self._lifecycle.check_open()
        if self._nursery is None:
            raise AssertionError("an open producer has a nursery")
        return self._nursery

    def start_send(
        self,
        outgoing: Outgoing,
        done: send_drivers.Done,
        *,
        choice: Choice | None = None,
        retries: int | None = None,
        timeout: float | timedelta | None = None,
        in_order: bool = False,
    ) -> send_drivers.Cancel:
        """Start a send, and call `done` with its outcome.

        Args:
            outgoing: what to send.
            done: called once.
            choice: chooses the queue, None for us.
            retries: how many there may be, `retry_times_when_send_async_failed` when None.
            timeout: seconds for all tries, `send_timeout` when None.
            in_order: whether nothing else is sent to the queue of this frame before `done` is called.

        Returns:
            A function that cancels the send.

        Raises:
            ClientClosedError: the producer is not open.
        """
        self._lifecycle.check_open()
        config, nursery = self.core.config, self._home
        retries = config.retry_times_when_send_async_failed if retries is None else retries
        self._told_begun()
        try:
            return send_drivers.start_send(
                self.core,
                outgoing,
                partial(self._ended_here, done),
                nursery=nursery,
                choice=choice,
                tries=1 + retries,
                timeout=self.seconds(timeout),
                in_order=in_order,
            )
        except BaseException:  # a selector's, or Ctrl-C: what was not begun is not under way, or closing waits for ever
            self._told_ended()
            raise

    def _ended_here(self, done: send_drivers.Done, outcome: SendResult | BaseException) -> None:
        self._told_ended()
        done(outcome)

    # --- batches of messages that linger ----------------------------------------------------------------

    def start_batch(
        self, outgoing: Outgoing, queue: MessageQueue | None, tries: int, timeout: float, done: send_drivers.Done
    ) -> object:
        """Start to send a batch, to a queue or to any."""
        return send_drivers.start_send(
            self.core,
            outgoing,
            done,
            nursery=self._home,
            choice=None if queue is None else fixed(outgoing.message, queue),
            tries=tries,
            timeout=timeout,
            in_order=queue is not None,
        )

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run an async function in a task of the producer."""
        self._home.start_soon(function)

    def note_begun(self) -> None:
        """Count a batch as under way."""
        self._begun()

    def note_ended(self) -> None:
        """Count a batch as ended."""
        self._ended()

    @property
    def _home(self) -> trio.Nursery:
        if self._nursery is None:
            raise AssertionError("a producer that was open has a nursery")
        return self._nursery

    async def send_oneway(self, outgoing: Outgoing, terms: Terms) -> None:
        """Send once and ask for no answer."""
        await send_oneway(self.core, outgoing, choice=terms.choice, tries=terms.tries, timeout=terms.timeout)

    def _done(self, done: send_drivers.Done, outcome: SendResult | BaseException) -> None:
        self._ended()
        done(outcome)
