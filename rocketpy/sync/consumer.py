"""PushConsumer for blocking code. Any thread may use it; plain listeners run in threads of their own."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from rocketpy.client.sharing import trio_client_of
from rocketpy.consumer import PushConsumer as TrioConsumer
from rocketpy.sync.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.status import PushConsumerStatistics, PushConsumerStatus
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageQueue
    from rocketpy.portal import Portal
    from rocketpy.remoting.network import Network
    from rocketpy.sync.client import MQClientInstance

__all__ = ["PushConsumer"]

T = TypeVar("T")


@final
class PushConsumer(Lifetime[TrioConsumer]):
    """Consumes: ``with rocketpy.sync.PushConsumer("billing", namesrv="127.0.0.1:9876") as consumer:``.

    Arguments and methods are those of `rocketpy.PushConsumer`, without `await`.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: PushConsumerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Any,
    ) -> None:
        shared = trio_client_of(client, "rocketpy.sync")
        super().__init__(TrioConsumer(group, config=config, client=shared, network=network, **fields), needs=client)

    @property
    def config(self) -> PushConsumerConfig:
        """The settings."""
        return self._inner.config

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, listener: Listener, *, tags: str | None = None, sql: str | None = None) -> None:
        """Let a listener get the messages of a topic, before the start or after it.

        See `rocketpy.PushConsumer.subscribe`. A plain listener is called in a thread, an async one by the loop in the
        background, where it may use trio but not asyncio.

        Raises:
            ConfigError: one of the arguments cannot be used.
        """
        self._in_loop(lambda: self._inner.subscribe(topic, listener, tags=tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Get no more messages of a topic.

        Raises:
            ConfigError: it is not subscribed.
        """
        self._in_loop(lambda: self._inner.unsubscribe(topic))

    # --- looking --------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of the subscribed topics that are ours now."""
        return self._in_loop(lambda: self._inner.assignment)

    def wait_assigned(self, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """Wait until at least one queue is ours. See `rocketpy.PushConsumer.wait_assigned`.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
        """
        return self._portal.call(self._inner.wait_assigned, timeout)

    def status(self) -> PushConsumerStatus:
        """How it is: topics, queues, what is held of them, and what goes wrong."""
        return self._in_loop(self._inner.status)

    def statistics(self) -> PushConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return self._in_loop(self._inner.statistics)

    def _in_loop(self, function: Callable[[], T]) -> T:
        """Call a plain function of the consumer where it runs; here, while it runs nowhere."""
        home = self._home
        if home is None or not home.is_usable:
            return function()

        async def call() -> T:
            return function()

        return home.call(call)

    # --- a program that does nothing else -----------------------------------------------------------------

    def run_forever(self) -> None:
        """Consume until SIGINT or SIGTERM, then commit, close and return.

        Starts the consumer when that was not done yet. In a thread that gets no signals it returns when another thread
        closes the consumer. A second signal strikes as usual.

        Raises:
            ServiceCrashedError: a bug in the background stopped it.
        """
        # Listening before the start: a signal that comes while it starts ends it in good order as well.
        with _Signals() as signals:
            if self._home is None:
                self.start()
            home, opened = self._home, self._opened
            if home is None or opened is None:
                return
            signals.end(home, opened.ended)
            opened.ended.wait()
        self.close()


class _Signals:
    """For the time of a block, the first SIGINT or SIGTERM sets an event, and is forgotten for the next one."""

    def __init__(self) -> None:
        self._arrived = False
        self._ends: tuple[Portal, threading.Event] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def end(self, home: Portal, event: threading.Event) -> None:
        """Say which event it is; it is set soon when a signal has arrived already."""
        self._ends = home, event
        if self._arrived:
            home.post(event.set)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self._arrived = True
        # Not here: the wait that was interrupted may hold the lock of the event.
        if self._ends is not None and self._ends[0].is_usable:
            self._ends[0].post(self._ends[1].set)

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _restore(self) -> None:
        # A signal may strike at any moment of this, and have the rest done by the time that it goes on.
        with suppress(KeyError):
            while True:
                number, handler = self._before.popitem()
                signal.signal(number, handler)
