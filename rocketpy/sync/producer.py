"""Producer for blocking code. Any thread may use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, final

from rocketpy.client.sharing import trio_client_of
from rocketpy.producer import Producer as TrioProducer
from rocketpy.producer.chunks import chunks
from rocketpy.producer.many import BATCH_SIZE, Many, OnFailure
from rocketpy.producer.pending import PendingSend
from rocketpy.sync.gate import Gate
from rocketpy.sync.lifetime import Lifetime

if TYPE_CHECKING:
    from rocketpy.client.outgoing import Outgoing
    from rocketpy.client.selection import QueueSelector
    from rocketpy.config import ProducerConfig
    from rocketpy.message import Message, MessageQueue
    from rocketpy.portal import Portal
    from rocketpy.remoting.network import Network
    from rocketpy.results import SendManyResult, SendResult
    from rocketpy.sync.client import MQClientInstance

__all__ = ["Producer"]


class _Soon:
    """One send on its way, from the hand-over to its future. A single object, for there may be very many of them."""

    __slots__ = ("_future", "_gate", "_options", "_outgoing", "_producer")

    def __init__(
        self,
        producer: TrioProducer,
        gate: Gate,
        outgoing: Outgoing,
        future: Future[SendResult],
        *options: Any,
    ) -> None:
        self._producer = producer
        self._gate = gate
        self._outgoing = outgoing
        self._future = future
        self._options = options

    def __call__(self) -> None:
        """Begin, in the trio thread."""
        queue, selector, arg, timeout = self._options
        try:
            self._producer.start_send(
                self._outgoing, self.done, queue=queue, selector=selector, arg=arg, timeout=timeout
            )
        except Exception as error:  # noqa: BLE001 - whatever a selector raises belongs to whoever sends
            self._gate.leave(self)
            self._future.set_exception(error)

    def done(self, outcome: SendResult | Exception) -> None:
        """End, in the trio thread."""
        self._gate.leave(self)
        if isinstance(outcome, Exception):
            self._future.set_exception(outcome)
        else:
            self._future.set_result(outcome)


@final
class Producer(Lifetime[TrioProducer]):
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
        **fields: Any,
    ) -> None:
        shared = trio_client_of(client, "rocketpy.sync")
        super().__init__(TrioProducer(group, config=config, client=shared, network=network, **fields), needs=client)
        settings = self._inner.config
        self._gate = Gate(settings.back_pressure_for_async_send_num, settings.back_pressure_for_async_send_size)

    @property
    def config(self) -> ProducerConfig:
        """The settings."""
        return self._inner.config

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self._inner.is_open

    def start(self) -> None:
        """Open it; the same as entering it with `with`.

        Raises:
            ClientClosedError: it was started before, is closed, or was made before a fork.
        """
        super().start()
        self._gate.open()  # closing it before it was started, or after a start that failed, had shut it

    def _leave(self, error: BaseException | None) -> None:
        if not self._crossed_fork:
            self._gate.close()
        super()._leave(error)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message and wait until a broker has stored it. See `rocketpy.Producer.send`."""
        home, inner = self._portal, self._inner
        return home.wait(PendingSend(inner, inner.prepare(message), queue, selector, arg, timeout))

    def send_soon(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
        timeout: float | None = None,
    ) -> Future[SendResult]:
        """Send a message without waiting for the answer, which the future will hold.

        What is wrong with the message is raised at once. While too much is under way
        (`back_pressure_for_async_send_num`, `back_pressure_for_async_send_size`) this waits. A failed send is tried
        again `retry_times_when_send_async_failed` times. Closing the producer waits for what is under way.

        Raises:
            ConfigError: the message cannot be sent as it is.
            ClientClosedError: the producer is not open.
        """
        home = self._portal
        outgoing = self._inner.prepare(message)
        future: Future[SendResult] = Future()
        future.set_running_or_notify_cancel()  # a message on its way cannot be called back
        soon = _Soon(self._inner, self._gate, outgoing, future, queue, selector, arg, timeout)
        try:
            self._gate.enter(soon, len(outgoing.body))
            home.post(soon)
        except BaseException:
            self._gate.leave(soon)
            raise
        return future

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Send a message once and do not ask what becomes of it. See `rocketpy.Producer.send_oneway`."""
        self._portal.call(self._inner.send_oneway, message, queue=queue, selector=selector, arg=arg)

    def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> SendResult:
        """Send several messages of one topic in one frame. See `rocketpy.Producer.send_batch`."""
        return self._portal.call(self._inner.send_batch, messages, queue=queue, timeout=timeout)

    def send_many(
        self,
        messages: Iterable[Message],
        *,
        batch_size: int = BATCH_SIZE,
        timeout: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> SendManyResult:
        """Send any number of messages in frames, and wait until all are stored. See `rocketpy.Producer.send_many`.

        The messages are taken and `on_failure` is called in the thread of the caller.
        """
        home = self._portal
        self._inner.check_open()
        many = Many(self._inner, home.post, batch_size=batch_size, timeout=timeout, on_failure=on_failure)
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

    def queues(self, topic: str, *, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """The queues of a topic that can be written, by broker name and number."""
        return self._portal.call(self._inner.queues, topic, timeout=timeout)

    def create_topic(self, topic: str, *, queues: int | None = None, timeout: float | None = None) -> None:
        """Create a topic on every broker that creates topics. See `rocketpy.Producer.create_topic`."""
        self._portal.call(self._inner.create_topic, topic, queues=queues, timeout=timeout)


def _end(home: Portal, many: Many, error: BaseException) -> None:
    """Wait until what is in flight has ended; where it is Ctrl-C that ends it, give it up."""
    if not isinstance(error, Exception):
        home.post(many.abort)
    try:
        home.call(many.stop, error)
    except BaseException:
        home.post(many.abort)
        raise
