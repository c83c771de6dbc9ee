"""Producer for blocking code. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakMethod

from rocketpy.client.lifecycle import forks
from rocketpy.client.shared_client import trio_client_of
from rocketpy.errors import TooManyRequestsError
from rocketpy.producer import Producer as TrioProducer
from rocketpy.producer.choosing import Fixed, choice_of, fixed
from rocketpy.producer.chunks import chunks
from rocketpy.producer.send_many import BATCH_SIZE, OnFailure, SendMany
from rocketpy.producer.surface import ProducerSurface
from rocketpy.sync.asking import AskedSoon
from rocketpy.sync.at_exit import collected, forget, forget_if_collected, remember
from rocketpy.sync.calls import call_in_own_loop
from rocketpy.sync.direct import DirectSends
from rocketpy.sync.future import Callbacks, SendFuture, Surroundings
from rocketpy.sync.gate import Gate, Gates
from rocketpy.sync.has_admin import HasAdmin
from rocketpy.sync.lifetime import Lifetime
from rocketpy.sync.lingering import ThreadSends
from rocketpy.sync.soon import Soon
from rocketpy.sync.under_way import UnderWay
from rocketpy.sync.unseen import Failures

if TYPE_CHECKING:
    from concurrent.futures import Future
    from datetime import timedelta

    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.client.sends.selection import QueueSelector
    from rocketpy.config import ProducerConfig
    from rocketpy.config.typed import ProducerSettings
    from rocketpy.message import Message, MessageExt, MessageQueue
    from rocketpy.portal import Opened, Portal
    from rocketpy.producer.statistics import ProducerStatistics
    from rocketpy.producer.terms import Terms
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendManyResult, SendResult
    from rocketpy.sync.client import MQClientInstance

__all__ = ["Producer"]


class Producer(HasAdmin, Lifetime[TrioProducer]):
    """Sends messages: ``with rocketpy.sync.Producer("orders", namesrv="127.0.0.1:9876") as producer:``.

    Arguments and methods are those of `rocketpy.Producer`, without `await`; `send_soon` sends without waiting.
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
        shared = trio_client_of(client, "rocketpy.sync")
        inner = self._make_inner(group, config=config, client=shared, network=network, **fields)
        super().__init__(inner, needs=client, client=inner.client)
        settings = inner.config
        most, most_size = settings.back_pressure_for_async_send_num, settings.back_pressure_for_async_send_size
        held = most_size if settings.linger is None else min(most_size, settings.total_batch_max_bytes)
        self._gate, self._request_gate = Gate(most, held), Gate(most, most_size)
        self._gates = Gates(self._gate, self._request_gate)
        self._direct = DirectSends(inner)
        self._callbacks = Callbacks(settings.group)
        self._failures = Failures(settings.group)
        self._under_way = UnderWay(settings, self._gates, self._direct, self._callbacks)
        self._surroundings = Surroundings(self._direct.before_wait, self._callbacks, self._failures, forks())
        lingering = ThreadSends(self._direct, self._gate, self._surroundings)
        self._lingering = None if settings.linger is None else lingering

    def _make_inner(self, group: str | None, **arguments: Any) -> TrioProducer:
        """The producer behind this one."""
        surface = ProducerSurface(async_caller=call_in_own_loop, statistics=WeakMethod(self.statistics))
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
        return self._inner.outside.figures.statistics(self._direct.under_way + len(self._gate))

    @property
    def _is_waited_for(self) -> bool:
        return self._inner.outside.is_waited_for

    def start(self) -> None:
        """Open it; the same as entering it with `with`.

        Raises:
            ClientClosedError: it was started before, is closed, was created before a fork, or was closed while it
                started.
        """
        super().start()
        self._gates.open()  # a close before the start, or after a failed one, has shut them
        self._direct.open(self._portal)
        self._failures.open(self._portal)
        remember(self._under_way)

    def _close(self, opened: Opened[Any], error: BaseException | None) -> None:
        """Refuse sends that wait for room, and wait for those in flight, before the producer is closed."""
        self._gates.close()
        self._direct.outside.stop_accepting()
        self._under_way.finish(None if error is None else self._under_way.exit_timeout)
        super()._close(opened, error)
        forget(self._under_way)
        self._callbacks.close()

    def _when_ended(self) -> Callable[[], object]:
        return partial(forget_if_collected, self._under_way)

    def __del__(self) -> None:
        """Warn if it was not closed, and close it in the background, after the messages in flight."""
        opened: Opened[Any] | None = getattr(self, "_opened", None)
        if opened is not None and not self._crossed_fork:
            collected(self._under_way)
        super().__del__()

    # --- sending ----------------------------------------------------------------------------------------

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send a message and wait until a broker has stored it. See `rocketpy.Producer.send`.

        The selector is called in the thread of the caller.
        """
        self._check_process()
        direct, config = self._direct, self._inner.config
        if self._lingering is not None:
            message = direct.outside.filled(message)
            if not direct.is_ours and (head := direct.outside.head(message)) is not None:
                seconds, retries = self._inner.outside.seconds(timeout), config.retry_times_when_send_failed
                deadline = direct.core.clock() + seconds
                chosen = self._queue_of(message, queue, selector, arg, seconds)
                return self._lingering.send(message, head, chosen, seconds, deadline, retries)
        outgoing = direct.outside.prepare(message)
        seconds = config.send_timeout if timeout is None else self._inner.outside.seconds(timeout)
        if queue is None and selector is None and arg is None:
            terms = direct.outside.terms(outgoing, None, seconds, config.retry_times_when_send_failed)
        else:
            terms = self._chosen(outgoing, queue, selector, arg, seconds, config.retry_times_when_send_failed)
        return direct.send(outgoing, terms)

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> Future[SendResult]:
        """Send a message without waiting for the answer, and return a future for its result.

        Errors in the message are raised at once. This waits while too many messages are in flight
        (`back_pressure_for_async_send_num`, `back_pressure_for_async_send_size`). A failed send is retried
        `retry_times_when_send_async_failed` times. Messages with one sharding key are sent one at a time, in the order
        of the calls. Done-callbacks run one at a time in a thread of their own, and may send. Closing the producer
        waits for the messages in flight. So does the end of the process, for at most `exit_timeout` seconds.

        Args:
            message: what to send.
            queue: where it goes, a queue of the topic.
            selector: chooses the queue, a function of the topic's queues, the message and `arg`.
            arg: is passed to the selector.
            timeout: seconds for room, all attempts and the answer, `send_timeout` when None.

        Raises:
            ConfigError: the message cannot be sent as it is.
            ClientClosedError: the producer is not open.
            TooManyRequestsError: there was no room for the message in time; or too many are in flight, and this is a
                hook or a finalizer in a background thread of rocketpy, which must not wait for room.
        """
        self._check_process()
        direct, config = self._direct, self._inner.config
        if self._lingering is not None:
            message = direct.outside.filled(message)
            if (head := direct.outside.head(message)) is not None:
                seconds, retries = self._inner.outside.seconds(timeout), config.retry_times_when_send_async_failed
                deadline, chosen = direct.core.clock() + seconds, None
                if queue is not None or selector is not None or arg is not None:
                    chosen = self._queue_of(message, queue, selector, arg, seconds)
                return self._lingering.send_soon(message, head, chosen, seconds, deadline, retries)
        outgoing = direct.outside.prepare(message)
        seconds = config.send_timeout if timeout is None else self._inner.outside.seconds(timeout)
        if queue is None and selector is None and arg is None:
            terms = direct.outside.terms(outgoing, None, seconds, config.retry_times_when_send_async_failed)
        else:
            terms = self._chosen(outgoing, queue, selector, arg, seconds, config.retry_times_when_send_async_failed)
        future: SendFuture[SendResult] = SendFuture(self._surroundings, outgoing.topic)
        self._begin(Soon(direct, self._gate, outgoing, terms, future), outgoing, terms)
        return future

    def _begin(self, soon: Soon, outgoing: Outgoing, terms: Terms) -> None:
        """Begin a send as soon as there is room."""
        try:
            if not self._gate.enter(soon, len(outgoing.body), wait=False):
                self._wait_for_room(self._gate, soon, outgoing, terms.deadline, terms.timeout)
            soon.begin()
        except BaseException:
            self._gate.leave(soon)
            raise

    def _wait_for_room(self, gate: Gate, ticket: object, outgoing: Outgoing, deadline: float, seconds: float) -> None:
        """Wait until a gate lets a message through, up to its deadline."""
        if self._direct.is_ours:
            raise TooManyRequestsError(
                "too many messages are in flight, and a background thread of rocketpy must not wait for room: send in "
                "a thread of yours, or raise back_pressure_for_async_send_num or back_pressure_for_async_send_size"
            )
        if not gate.enter(ticket, len(outgoing.body), timeout=max(0.0, deadline - self._direct.core.clock())):
            raise TooManyRequestsError(
                f"too many messages are in flight, and there was no room for a message to {outgoing.topic} within "
                f"{seconds:g} s: nothing was sent; send more slowly, or raise back_pressure_for_async_send_num or "
                "back_pressure_for_async_send_size"
            )

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> MessageExt:
        """Send a message and wait for the reply of the consumer that gets it. See `rocketpy.Producer.request`.

        The selector is called in the thread of the caller.
        """
        self._check_process()
        requests, retries = self._inner.outside.requests, self._inner.config.retry_times_when_send_failed
        asked = requests.prepare(message, timeout)
        choice = self._chosen(asked.outgoing, queue, selector, arg, asked.timeout, retries).choice
        return self._portal.call(requests.ask, asked, choice, retries)

    def request_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | timedelta | None = None,
    ) -> Future[MessageExt]:
        """Send a message without waiting for the reply, and return a future for it.

        Otherwise this is like `request`, and like `send_soon`: errors in the message are raised at once; this waits
        while too many requests are in flight (with the same bounds as sends, but counted apart); done-callbacks run in
        a thread of their own; and closing the producer waits for the replies.

        Args:
            message: the request.
            queue: where it goes, a queue of the topic.
            selector: chooses the queue, a function of the topic's queues, the message and `arg`.
            arg: is passed to the selector.
            timeout: seconds for the request and its reply, `send_timeout` when None.

        Raises:
            ConfigError: the message cannot be sent as it is.
            ClientClosedError: the producer is not open.
            TooManyRequestsError: there was no room for the request in time; or too many are in flight, and this is a
                background thread of rocketpy.
        """
        self._check_process()
        requests, retries = self._inner.outside.requests, self._inner.config.retry_times_when_send_async_failed
        asked = requests.prepare(message, timeout)
        choice = self._chosen(asked.outgoing, queue, selector, arg, asked.timeout, retries).choice
        future: SendFuture[MessageExt] = SendFuture(self._surroundings, message.topic)
        soon, gate = AskedSoon(self._request_gate, future), self._request_gate
        try:
            if not gate.enter(soon, len(asked.outgoing.body), wait=False):
                self._wait_for_room(gate, soon, asked.outgoing, asked.deadline, asked.timeout)
            soon.begin(self._portal, requests, asked, choice, retries)
        except BaseException:
            gate.leave(soon)
            raise
        return future

    def _chosen(
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
            terms.choice = fixed(message, choice(self._route_of(message.topic, seconds)))
        return terms

    def _queue_of(
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
        return fixed(message, choice(self._route_of(message.topic, seconds))).queue

    def _route_of(self, topic: str, seconds: float) -> TopicPublishInfo:
        outside = self._direct.outside
        info = outside.client.routes.publish_info(topic)
        if info is None:
            info = self._portal.call(outside.ensure_route, topic, timeout=seconds)
        return info

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message without asking for an answer. See `rocketpy.Producer.send_oneway`."""
        self._check_process()
        outside, config = self._direct.outside, self._inner.config
        outgoing = outside.prepare(message)
        terms = self._chosen(outgoing, queue, selector, arg, config.send_timeout, config.retry_times_when_send_failed)
        if not outside.send_oneway_now(outgoing, terms, self._direct.nowait):
            self._portal.call(outside.send_oneway, outgoing, terms)

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout: float | timedelta | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one frame. See `rocketpy.Producer.send_batch`."""
        self._check_process()
        outside, inner = self._direct.outside, self._inner
        outgoing = outside.prepare_batch(messages)
        choice = choice_of(outgoing.message, queue, None, None)
        seconds = inner.outside.seconds(timeout)
        terms = outside.terms(outgoing, choice, seconds, inner.config.retry_times_when_send_failed)
        return self._direct.send(outgoing, terms)

    def batches(self, messages: Iterable[Message], *, max_size: int | None = None) -> list[list[Message]]:
        """Split messages of one topic into batches for `send_batch`. See `rocketpy.Producer.batches`."""
        return self._inner.batches(messages, max_size=max_size)

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        batch_size: int = BATCH_SIZE,
        timeout: float | timedelta | None = None,
        on_failure: OnFailure | None = None,
    ) -> SendManyResult:
        """Send any number of messages in frames, and wait until all are stored. See `rocketpy.Producer.send_many`.

        The messages are read, and `on_failure` is called, in the thread of the caller.
        """
        home = self._portal
        self._inner.outside.check_open()
        many = SendMany(self._inner.outside, home.post, batch_size=batch_size, timeout=timeout, on_failure=on_failure)
        try:
            for part in chunks(messages, many):
                for step in many.feed(part):
                    home.call(step)
            for step in many.finish():
                home.call(step)
        except BaseException as error:
            _end(home, many, error)
            raise
        return many.result()

    def recall(self, topic: str, handle: str | None, *, timeout: float | timedelta | None = None) -> str:
        """Recall a message that is not due yet. See `rocketpy.Producer.recall`."""
        return self._portal.call(self._inner.recall, topic, handle, timeout=timeout)

    def queues(self, topic: str, *, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be written, by broker name and number."""
        return self._portal.call(self._inner.queues, topic, timeout=timeout)

    def create_topic(self, topic: str, *, queues: int | None = None, timeout: float | timedelta | None = None) -> None:
        """Create a topic on every registered broker. See `rocketpy.Producer.create_topic`."""
        self._portal.call(self._inner.create_topic, topic, queues=queues, timeout=timeout)


def _end(home: Portal, many: SendMany, error: BaseException) -> None:
    """Wait for the frames in flight to end; cancel them first if the error is KeyboardInterrupt."""
    if not isinstance(error, Exception):
        home.post(many.abort)
    try:
        home.call(many.stop, error)
    except BaseException:
        home.post(many.abort)
        raise
