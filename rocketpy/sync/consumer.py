"""PushConsumer for blocking code. Any thread may use it; listeners run in threads of their own.

What does not wait for brokers does not wait for the background thread either: it is safe in signal handlers, in
`__del__`, and while the consumer starts or closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, final

from rocketpy.client.homes import home_of
from rocketpy.client.shared_client import trio_client_of
from rocketpy.consumer import PushConsumer as TrioConsumer
from rocketpy.consumer.surface import ConsumerSurface
from rocketpy.errors import ConfigError
from rocketpy.sync.calls import call_in_own_loop
from rocketpy.sync.has_admin import HasAdmin
from rocketpy.sync.lifetime import Lifetime
from rocketpy.sync.listeners import OwnLoopRunner
from rocketpy.sync.signals import Signals

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.config import PushConsumerConfig
    from rocketpy.config.typed import PushConsumerSettings
    from rocketpy.consumer.pauses import Pausable
    from rocketpy.consumer.push_statistics import PushConsumerStatistics
    from rocketpy.consumer.status import PushConsumerStatus
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network
    from rocketpy.sync.client import MQClientInstance

__all__ = ["PushConsumer"]


@final
class PushConsumer(HasAdmin, Lifetime[TrioConsumer]):
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
        **fields: Unpack[PushConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        inner = TrioConsumer(
            group,
            config=config,
            client=trio_client_of(client, "rocketpy.sync"),
            network=network,
            _surface=ConsumerSurface(async_runner=OwnLoopRunner, async_caller=call_in_own_loop),
            **fields,
        )
        super().__init__(inner, needs=client, client=inner.client)

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

        See `rocketpy.PushConsumer.subscribe`. A plain listener is called in a thread. An async one is called in a trio
        loop that is the consumer's own, in a thread: it may use trio but not asyncio, and what blocks there blocks
        only the other async listeners of this consumer.

        Raises:
            ConfigError: one of the arguments cannot be used.
            ClientClosedError: it was made before a fork.
        """
        self._check_process()
        self._inner.subscribe(topic, listener, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic.

        Raises:
            ConfigError: the topic is not subscribed.
            ClientClosedError: it was made before a fork.
        """
        self._check_process()
        self._inner.unsubscribe(topic)

    # --- steering -------------------------------------------------------------------------------------

    def pause(self, what: Pausable = None) -> None:
        """Stop getting messages of a topic, of queues, or of everything. See `rocketpy.PushConsumer.pause`.

        Raises:
            ConfigError: this is neither a subscribed topic nor queues.
            ClientClosedError: it was made before a fork.
        """
        self._check_process()
        self._inner.pause(what)

    def resume(self, what: Pausable = None) -> None:
        """Get messages again; of everything if called without an argument.

        Raises:
            ConfigError: this is neither a subscribed topic nor queues.
            ClientClosedError: it was made before a fork.
        """
        self._check_process()
        self._inner.resume(what)

    def set_consume_thread_max(self, most: int) -> None:
        """Change how many listeners may run at the same time. See `rocketpy.PushConsumer.set_consume_thread_max`.

        Raises:
            ConfigError: it is not such a number.
            ClientClosedError: the consumer is not open.
        """
        self._check_process()
        self._inner.set_consume_thread_max(most)

    def commit(self, timeout: float | timedelta | None = None) -> None:
        """Commit what is consumed so far, and wait until the brokers confirm it. See `rocketpy.PushConsumer.commit`.

        Raises:
            RequestTimeoutError: some of it is not committed; the log says why, and the next commit repeats it.
            ConfigError: the caller is `write` of its own `offset_store`.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped it meanwhile.
        """
        outside = self._inner.outside
        outside.current.check_may_commit()
        self._portal.call(outside.commit, timeout, outside.is_waited_for)

    def lag(self, timeout: float | timedelta | None = None) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many messages are not consumed yet. See `rocketpy.PushConsumer.lag`.

        Raises:
            ConfigError: the timeout cannot be used.
            RequestTimeoutError: it took longer.
            RocketMQError: a broker cannot be reached, or refuses.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        return self._portal.call(self._inner.lag, timeout)

    # --- looking --------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of the subscribed topics that this consumer has now."""
        return self._inner.assignment

    def wait_assigned(self, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """Wait until this consumer has at least one queue. See `rocketpy.PushConsumer.wait_assigned`.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped it meanwhile.
        """
        return self._portal.call(self._inner.wait_assigned, timeout)

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

    def run_forever(self) -> None:
        """Consume until SIGINT or SIGTERM, then commit, close and return.

        Starts the consumer if it was not started yet. It also returns when a listener or another thread closes the
        consumer, which is the only way to end it outside the main thread. A second signal acts as usual.

        Raises:
            ServiceCrashedError: a bug in the background stopped it.
            ConfigError: called in one of its own listeners or in the background thread, where it would wait forever.
        """
        if self._inner.outside.is_waited_for:
            raise ConfigError(
                f"run_forever in a listener of {self._inner!r} would wait for that same listener: call it elsewhere"
            )
        home_of(self._client).check_not_here()
        # Before the start, so that a signal that arrives while the consumer starts closes it in order too.
        with Signals() as signals:
            if self._home is None and not self._start():
                return  # closed while it started
            home, opened = self._home, self._opened
            if home is None or opened is None:
                return
            signals.wait(home, opened.ended)
        self.close()
        crash = self._inner.status().crash
        if crash is not None:  # other code has closed it, and got the error first
            raise crash

    @property
    def _uses_threads(self) -> bool:
        return self._inner.config.uses_threads

    @property
    def _is_waited_for(self) -> bool:
        return self._inner.outside.is_waited_for
