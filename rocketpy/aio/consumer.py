"""PushConsumer for asyncio: async listeners run in the loop of the user, plain ones in threads."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from rocketpy.aio.bridge import Bridge
from rocketpy.aio.lifetime import Lifetime
from rocketpy.aio.listeners import LoopRunner
from rocketpy.client.sharing import trio_client_of
from rocketpy.consumer import PushConsumer as TrioConsumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.aio.client import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.status import PushConsumerStatistics, PushConsumerStatus
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network

__all__ = ["PushConsumer"]

T = TypeVar("T")


@final
class PushConsumer(Lifetime[TrioConsumer]):
    """Consumes: ``async with rocketpy.aio.PushConsumer("billing", namesrv="127.0.0.1:9876") as consumer:``.

    Arguments and methods are those of `rocketpy.PushConsumer`. Async listeners run as tasks of the loop in which the
    consumer was entered, up to `consume_thread_max` of them side by side, each call in a copy of the context that
    entered it. Plain listeners run in threads, side by side, and must not touch the loop.
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
        bridge = Bridge("consumer")
        inner = TrioConsumer(
            group,
            config=config,
            client=trio_client_of(client, "rocketpy.aio"),
            network=network,
            async_runner=partial(LoopRunner, bridge),
            **fields,
        )
        bridge.what = f"consumer {inner.config.group}"
        super().__init__(inner, bridge, needs=client)

    @property
    def config(self) -> PushConsumerConfig:
        """The settings."""
        return self._inner.config

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, listener: Listener, *, tags: str | None = None, sql: str | None = None) -> None:
        """Let a listener get the messages of a topic, before the start or after it.

        See `rocketpy.PushConsumer.subscribe`. An async listener is called in the loop in which the consumer is entered,
        a plain one in a thread.

        Raises:
            ConfigError: one of the arguments cannot be used.
        """
        self._in_portal(lambda: self._inner.subscribe(topic, listener, tags=tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Get no more messages of a topic.

        Raises:
            ConfigError: it is not subscribed.
        """
        self._in_portal(lambda: self._inner.unsubscribe(topic))

    # --- looking --------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of the subscribed topics that are ours now."""
        return self._in_portal(lambda: self._inner.assignment)

    async def wait_assigned(self, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """Wait until at least one queue is ours. See `rocketpy.PushConsumer.wait_assigned`.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
        """
        return await self._call(self._inner.wait_assigned, timeout)

    def status(self) -> PushConsumerStatus:
        """How it is: topics, queues, what is held of them, and what goes wrong."""
        return self._in_portal(self._inner.status)

    def statistics(self) -> PushConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return self._in_portal(self._inner.statistics)

    def _in_portal(self, function: Callable[[], T]) -> T:
        """Call a plain function of the consumer where it runs, which takes a moment; here, while it runs nowhere."""
        bridge = self._bridge
        if bridge.opened is None or not bridge.portal.is_usable:
            return function()
        bridge.check()

        async def call() -> T:
            return function()

        return bridge.portal.call(call)

    # --- a program that does nothing else -----------------------------------------------------------------

    async def run_forever(self) -> None:
        """Consume until SIGINT or SIGTERM, then return, for `async with` to commit and close.

        Outside of `async with` it starts the consumer itself, and closes it. In a thread that gets no signals it runs
        until its task is cancelled. A second signal strikes as usual.

        Raises:
            ServiceCrashedError: a bug in the background stopped it.
        """
        ended = asyncio.Event()
        # Listening before the start: a signal that comes while it starts ends it in good order as well.
        with _Signals(asyncio.get_running_loop(), ended.set):
            if self._bridge.opened is None:
                async with self:
                    await self._until(ended)
            else:
                self._bridge.check()
                await self._until(ended)

    async def _until(self, ended: asyncio.Event) -> None:
        bridge = self._bridge
        if bridge.opened is None:
            return
        bridge.opened.on_end = partial(bridge.inbox.deliver, ended.set)
        if not bridge.opened.ended.is_set():
            await ended.wait()
        crash = self._inner.status().crash
        if crash is not None:
            raise crash


class _Signals:
    """For the time of a block, the first SIGINT or SIGTERM calls a function, and the next one strikes as before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        self._loop = loop
        self._function = function
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                with suppress(RuntimeError):  # a loop of Windows: Ctrl-C cancels the task there
                    self._loop.add_signal_handler(number, self._arrived)
                    self._before[number] = before
        return self

    def _arrived(self) -> None:
        self._restore()
        self._function()

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            self._loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
