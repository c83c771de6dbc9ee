"""PushConsumer for asyncio: async listeners run in the loop of the user, plain ones in threads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Unpack, final

from rocketpy.aio.bridge import Bridge
from rocketpy.aio.calls import LoopCaller
from rocketpy.aio.has_admin import HasAdmin
from rocketpy.aio.lifetime import Lifetime
from rocketpy.aio.listeners import LoopRunner
from rocketpy.aio.signals import first_signal
from rocketpy.client.shared_client import trio_client_of
from rocketpy.consumer import PushConsumer as TrioConsumer
from rocketpy.consumer.surface import ConsumerSurface
from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.aio.client import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.config.typed import PushConsumerSettings
    from rocketpy.consumer.pauses import Pausable
    from rocketpy.consumer.push_statistics import PushConsumerStatistics
    from rocketpy.consumer.status import PushConsumerStatus
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network

__all__ = ["PushConsumer"]


@final
class PushConsumer(HasAdmin, Lifetime[TrioConsumer]):
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
        **fields: Unpack[PushConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        bridge = Bridge("consumer")
        inner = TrioConsumer(
            group,
            config=config,
            client=trio_client_of(client, "rocketpy.aio"),
            network=network,
            _surface=ConsumerSurface(async_runner=partial(LoopRunner, bridge), async_caller=LoopCaller(bridge)),
            **fields,
        )
        bridge.what = f"consumer {inner.config.group}"
        bridge.client = inner.client
        super().__init__(inner, bridge, needs=client)

    @property
    def config(self) -> PushConsumerConfig:
        """The settings."""
        return self._inner.config

    def _make_again(self, *, crossed_fork: bool) -> None:
        former = self._inner
        super()._make_again(crossed_fork=crossed_fork)
        self._inner.outside.adopt(former)

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, listener: Listener, *, tags: str | None = None, sql: str | None = None) -> None:
        """Have a listener called with the messages of a topic. May be called before or after the start.

        See `rocketpy.PushConsumer.subscribe`. An async listener is called in the loop in which the consumer is entered,
        a plain one in a thread.

        Raises:
            ConfigError: one of the arguments cannot be used.
        """
        self._check_home()
        self._inner.subscribe(topic, listener, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic.

        Raises:
            ConfigError: the topic is not subscribed.
        """
        self._check_home()
        self._inner.unsubscribe(topic)

    def _check_home(self) -> None:
        """Refuse changes from outside the consumer's loop, once it has one."""
        if self._bridge.is_bound:
            self._bridge.check()

    @property
    def _is_waited_for(self) -> bool:
        return self._inner.outside.is_waited_for

    # --- pausing, committing --------------------------------------------------------------------------

    def pause(self, what: Pausable = None) -> None:
        """Stop getting messages of a topic, of queues, or of everything. See `rocketpy.PushConsumer.pause`.

        Raises:
            ConfigError: this is neither a subscribed topic nor queues.
        """
        self._check_home()
        self._inner.pause(what)

    def resume(self, what: Pausable = None) -> None:
        """Get messages again; of everything if called without an argument.

        Raises:
            ConfigError: this is neither a subscribed topic nor queues.
        """
        self._check_home()
        self._inner.resume(what)

    def set_consume_thread_max(self, most: int) -> None:
        """Change how many listeners may run at the same time. See `rocketpy.PushConsumer.set_consume_thread_max`.

        Raises:
            ConfigError: it is not such a number.
            ClientClosedError: the consumer is not open.
        """
        self._check_home()
        self._inner.set_consume_thread_max(most)

    async def commit(self, timeout: float | timedelta | None = None) -> None:
        """Commit what is consumed so far, and wait until the brokers confirm it. See `rocketpy.PushConsumer.commit`.

        Raises:
            RequestTimeoutError: some of it is not committed; the log says why, and the next commit repeats it.
            ConfigError: the caller is `write` of its own `offset_store`.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped it meanwhile.
        """
        outside = self._inner.outside
        outside.current.check_may_commit()
        await self._call(outside.commit, timeout, outside.is_waited_for)

    async def lag(self, timeout: float | timedelta | None = None) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many messages are not consumed yet. See `rocketpy.PushConsumer.lag`.

        Raises:
            ConfigError: the timeout cannot be used.
            RequestTimeoutError: it took longer.
            RocketMQError: a broker cannot be reached, or refuses.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        return await self._call(self._inner.lag, timeout)

    # --- looking: what does not wait may be called by any thread ----------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of the subscribed topics that this consumer has now."""
        return self._inner.assignment

    async def wait_assigned(self, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """Wait until this consumer has at least one queue. See `rocketpy.PushConsumer.wait_assigned`.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped it meanwhile.
        """
        return await self._call(self._inner.wait_assigned, timeout)

    def status(self) -> PushConsumerStatus:
        """The current state: topics, queues, the messages held from them, and errors."""
        return self._inner.status()

    def statistics(self) -> PushConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return self._inner.statistics()

    # --- running as the whole program ---------------------------------------------------------------------

    async def run_forever(self) -> None:
        """Consume until SIGINT or SIGTERM, then return, for `async with` to commit and close.

        Outside of `async with` it starts the consumer itself, and closes it. In a thread that gets no signals it runs
        until its task is cancelled. A second signal acts as usual.

        Raises:
            ServiceCrashedError: a bug in the background stopped it.
            ConfigError: this is a listener of its own.
        """
        bridge = self._bridge
        bridge.check_place()
        if self._inner.outside.is_waited_for:
            raise ConfigError(
                f"run_forever in a listener of {bridge.what} would wait for that same listener: call it elsewhere"
            )
        over = asyncio.Event()
        # Before the start, so that a signal that arrives while the consumer starts closes it in order too.
        with first_signal(over.set):
            if bridge.opened is None and self._starting is None:
                async with self:
                    await self._until(over)
                return
            if self._starting is not None:
                await self._starting.over.wait()
            bridge.check()
            await self._until(over)

    async def _until(self, over: asyncio.Event) -> None:
        with self._calling_at_end(over.set):
            await over.wait()
        crash = self._inner.status().crash
        if crash is not None:
            raise crash
