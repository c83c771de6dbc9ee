"""What the other surfaces need of a producer besides what users call; their code runs outside of its loop.

Most of it is for sends from threads, and from loops of asyncio. They make the first attempt of a send by themselves,
with the core that all attempts share, and leave retries to the loop. Any thread may check and encode messages here; the
other methods are for the loop.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rocketpy.client.lifecycle import State
from rocketpy.client.sends import send_drivers
from rocketpy.client.sends.send_oneway import send_oneway
from rocketpy.errors import BrokerUnreachableError, ConnectionLostError
from rocketpy.message import PropertyName
from rocketpy.producer.accumulator import Accumulator
from rocketpy.producer.choosing import fixed
from rocketpy.producer.items import Items
from rocketpy.producer.routes import ensure_route
from rocketpy.producer.terms import Terms
from rocketpy.producer.timeouts import checked_timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    import trio

    from rocketpy.client.attempt import WritingConnection
    from rocketpy.client.lifecycle import Lifecycle
    from rocketpy.client.preparing.outgoing import Outgoing, Preparer
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.client.sends.sending import Attempt, Choice, SendCore
    from rocketpy.errors import RocketMQError
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.figures import Figures
    from rocketpy.producer.items import Head
    from rocketpy.producer.requesting import Requester
    from rocketpy.producer.send_count import SendCount
    from rocketpy.producer.transacting import Transactions
    from rocketpy.results import SendResult

__all__ = ["Outside"]

_SHARDING_KEY = PropertyName.SHARDING_KEY


class Outside:
    """One producer, as code outside of its loop uses it: its sends, and its other parts.

    Args:
        core: the core that all attempts share.
        preparer: checks and encodes messages.
        lifecycle: the lifecycle of the producer.
        sends: counts the sends that are under way.
        requests: makes requests.
        figures: makes the statistics.
        transactions: makes transactions; None if the producer does not.

    Attributes:
        client: the client of the producer.
        core: the core that all attempts share.
        items: makes entries of messages that linger.
        accumulator: forms batches of them; None if messages do not linger.
        sends: counts the sends that are under way.
        requests: makes requests.
        figures: makes the statistics.
    """

    def __init__(
        self,
        core: SendCore,
        preparer: Preparer,
        lifecycle: Lifecycle,
        sends: SendCount,
        requests: Requester,
        figures: Figures,
        transactions: Transactions | None = None,
    ) -> None:
        self.client = core.client
        self.core = core
        self._preparer = preparer
        self._lifecycle = lifecycle
        self.sends = sends
        self.requests = requests
        self.figures = figures
        self._transactions = transactions
        self._nursery: trio.Nursery | None = None
        self.items = Items(core.config, preparer)
        self.accumulator = None if core.config.linger is None else Accumulator(core, self, preparer.take_ids)

    def open(self, nursery: trio.Nursery) -> None:
        """Set the nursery in which retries run."""
        self._nursery = nursery
        if self.accumulator is not None:
            self.accumulator.start()

    def stop_accepting(self) -> None:
        """The producer closes: it takes no new messages."""
        self._lifecycle.closing()

    @property
    def is_waited_for(self) -> bool:
        """Whether the caller is a function of the user's for which closing waits. Thread-safe."""
        return self.figures.in_report or (self._transactions is not None and self._transactions.in_checker)

    @property
    def transactions(self) -> Transactions:
        """What makes the transactions of a transaction producer."""
        if self._transactions is None:
            raise AssertionError("only a transaction producer makes transactions")
        return self._transactions

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
        return preparer.one(messages[0]) if len(messages) == 1 else preparer.batch(messages, checked=True)

    def terms(self, outgoing: Outgoing, choice: Choice | None, seconds: float, retries: int) -> Terms:
        """Return the terms of a send that begins now."""
        key = None
        if choice is None:
            properties = outgoing.message.wire_properties
            if _SHARDING_KEY in properties:
                key = outgoing.message.topic, properties[_SHARDING_KEY]
        return Terms(choice, 1 + retries, self.core.clock() + seconds, seconds, key)

    # --- the loop --------------------------------------------------------------------------------------

    async def ensure_route(self, topic: str, *, timeout: float) -> TopicPublishInfo:
        """Return the queues of a topic within `timeout` seconds, even of a topic that sending will create.

        Raises:
            RouteNotFoundError: no broker takes messages of it; the subclass says why.
        """
        return await ensure_route(self.core, topic, timeout=timeout)

    def start(self, outgoing: Outgoing, terms: Terms, done: send_drivers.Done) -> send_drivers.Cancel:
        """Start a send that already holds the turn of its sharding key; `done` gets the outcome.

        Raises:
            ClientClosedError: the producer was closed before the message was handed over.
        """
        nursery = self._open_nursery()
        self.sends.begin_outside()
        try:
            return send_drivers.start_send(
                self.core,
                outgoing,
                partial(self._done, done),
                nursery=nursery,
                choice=terms.choice,
                tries=terms.tries,
                timeout=max(0.001, terms.deadline - self.core.clock()),
                has_key=True,
            )
        except BaseException:  # of a hook: a send that has not begun must not count, or closing waits for ever
            self.sends.end_outside()
            raise

    def resume(
        self, attempt: Attempt[Any], error: RocketMQError, terms: Terms, done: send_drivers.Done
    ) -> send_drivers.Cancel:
        """Continue a send whose first attempt was made outside and has failed.

        Raises:
            ClientClosedError: the producer was closed before the message was handed over.
        """
        nursery = self._open_nursery()
        self.sends.begin_outside()
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
            timeout: seconds for all attempts, `send_timeout` when None.
            in_order: whether nothing else is sent to the queue of this frame before `done` is called.

        Returns:
            A function that cancels the send.

        Raises:
            ClientClosedError: the producer is not open.
        """
        self._lifecycle.check_open()
        config, nursery = self.core.config, self._home
        retries = config.retry_times_when_send_async_failed if retries is None else retries
        self.sends.begin()
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
            self.sends.end()
            raise

    def _ended_here(self, done: send_drivers.Done, outcome: SendResult | BaseException) -> None:
        self.sends.end()
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
        self.sends.begin_outside()

    def note_ended(self) -> None:
        """Count a batch as ended."""
        self.sends.end_outside()

    @property
    def _home(self) -> trio.Nursery:
        if self._nursery is None:
            raise AssertionError("a producer that was open has a nursery")
        return self._nursery

    def send_oneway_now(
        self, outgoing: Outgoing, terms: Terms, nowait: Callable[[str], WritingConnection | None]
    ) -> bool:
        """Send once over a data connection, and ask for no answer.

        Returns False if nothing was written, because there is no connection to use or no broker: `send_oneway` tries
        again, as it does on every surface.

        Args:
            outgoing: what to send.
            terms: its terms.
            nowait: gives the data connection to an address, where there is one.

        Raises:
            RocketMQError: it may not be sent.
            Exception: whatever a selector or a hook raises.
        """
        core = self.core
        info = core.client.routes.publish_info(outgoing.topic)
        if info is None or terms.key is not None or outgoing.timed:
            return False
        queue = core.choose(outgoing, info, terms.choice, oneway=True)
        try:
            broker_name, address = core.target(queue)
            connection = nowait(address)
            if connection is None:
                outgoing.chosen = queue if outgoing.is_plain else None
                return False
            core.write_oneway(outgoing, queue, broker_name, connection)
        except (BrokerUnreachableError, ConnectionLostError) as error:
            if core.was_forbidden(error) or not error.nothing_sent:
                raise
            return False
        return True

    async def send_oneway(self, outgoing: Outgoing, terms: Terms) -> None:
        """Send once and ask for no answer, in the trio thread."""
        await send_oneway(
            self.core,
            outgoing,
            choice=terms.choice,
            tries=terms.tries,
            timeout=terms.timeout,
            deadline=terms.deadline,
        )

    def _done(self, done: send_drivers.Done, outcome: SendResult | BaseException) -> None:
        self.sends.end_outside()
        done(outcome)
