"""PushConsumer, on trio: pulls messages and calls listeners. Plays the part of DefaultMQPushConsumer.

What exists only while it runs is in `running.RunningConsumer`, which also closes it in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, final

import trio

from rocketpy.admin.sharing import HasAdmin
from rocketpy.client.arguments import checked_seconds
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import State
from rocketpy.config import PushConsumerConfig
from rocketpy.config.checks import number
from rocketpy.config.push_consumer import MOST_THREADS
from rocketpy.consumer.calling.around import Around
from rocketpy.consumer.outside import PushOutside
from rocketpy.consumer.pauses import Pausable, Pauses, checked
from rocketpy.consumer.push_statistics import PushConsumerStatistics, statistics
from rocketpy.consumer.roles import SharingRole
from rocketpy.consumer.running import RunningConsumer
from rocketpy.consumer.sharing import Sharing
from rocketpy.consumer.signals import listen_to_signals
from rocketpy.consumer.start_checks import check_filters, check_heartbeats, check_name_servers, wait_shared_out
from rocketpy.consumer.status import PushConsumerStatus
from rocketpy.consumer.subscription import Listener, Subscriptions
from rocketpy.consumer.surface import ON_TRIO, ConsumerSurface
from rocketpy.errors import ConfigError, RequestTimeoutError
from rocketpy.logs import counted
from rocketpy.results import MessageModel
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from datetime import timedelta

    from rocketpy.config.typed import PushConsumerSettings
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network
    from rocketpy.trace.consumes import ConsumeTracer

__all__ = ["PushConsumer"]


@final
class PushConsumer(HasAdmin, Sharing[RunningConsumer]):
    """Consumes: ``async with rocketpy.PushConsumer("billing", namesrv="127.0.0.1:9876") as consumer:``.

    Its methods may be used by any task of its trio loop. Plain listeners run in threads, side by side; async listeners
    run as tasks of the loop.

    Args:
        group: name of the consumer group.
        config: the settings; `group` and `fields` override them.
        client: a client to share; None for one of its own.
        network: where a client of its own gets its connections.
        fields: settings by name, as in `PushConsumerConfig`.

    Raises:
        ConfigError: a setting cannot be used.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: PushConsumerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        _surface: ConsumerSurface = ON_TRIO,
        **fields: Unpack[PushConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["_surface"] = _surface
        base = config if config is not None or not isinstance(client, MQClientInstance) else client.config
        self.config = PushConsumerConfig.of(base, group=group, **fields)
        super().__init__(self.config, client, network)
        self._surface = _surface
        self._around = Around(self.config)
        self._subscriptions = Subscriptions(
            self.config.group,
            self._subscriptions_changed,
            wrap=lambda listener: self._around.wrap(listener),
            wrap_directly=lambda listener: self._around.wrap_directly(listener),
            retries=self.config.message_model is MessageModel.CLUSTERING,
        )
        self._pauses = Pauses()
        self.outside = PushOutside(self._current, self._adopt, self._commit)  # for the other surfaces

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<PushConsumer {self.config.group} {self._lifecycle.shown.value}>"

    def _make_again(self, *, crossed_fork: bool) -> None:
        subscriptions, pauses, around = self._subscriptions, self._pauses, self._around
        super()._make_again(crossed_fork=crossed_fork)
        self._subscriptions.adopt(subscriptions)
        self._pauses, self._around = pauses, around

    def _adopt(self, former: PushConsumer) -> None:
        """Take over the subscriptions and pauses of the consumer that this one replaces. For other surfaces."""
        self._subscriptions.adopt(former._subscriptions)
        self._pauses, self._around = former._pauses, former._around

    # --- life -----------------------------------------------------------------------------------------

    async def _open(self, stack: AsyncExitStack) -> None:
        """Start, and return after the first rebalance, or after `start_timeout`.

        The consumer keeps trying afterwards with brokers that were not reached and topics that do not exist yet: see
        `wait_assigned`. The docstring of `running` has the order of closing.
        """
        deadline = trio.current_time() + self.config.start_timeout
        tracer: ConsumeTracer | None = None
        if self.config.enable_msg_trace:
            from rocketpy.trace.consumes import traced_consumption  # few consumers are traced

            timeout = self.config.consume_timeout
            tracer = await stack.enter_async_context(traced_consumption(self.client, self.config, timeout))
        self._around.begin(tracer)
        running = RunningConsumer(
            self.client,
            self.config,
            self._subscriptions,
            self._pauses,
            self._surface,
            self._around.consumed,
        )
        await running.open(stack, self.config.close_timeout)
        await self._run_background(stack, running)
        await check_name_servers(self.client, self._subscriptions.user_topics, deadline)
        await check_filters(running.filters, deadline)
        role = SharingRole(self.client, self.config, ConsumeType.CONSUME_PASSIVELY, self._subscriptions, running)
        running.join(role)
        self._current.started(running)
        running.start_services()
        running.start_reports(self.config, self.statistics, running.calls)
        await wait_shared_out(running.rebalance, self.config, deadline)
        check_heartbeats(self.client, self.config.group, running.rebalance.told)

    async def run_forever(self) -> None:
        """Consume until SIGINT or SIGTERM, then return, for `async with` to commit and close.

        Outside of `async with` it starts the consumer itself, and closes it. It returns, too, when the consumer is
        closed meanwhile. A second signal acts as usual.

        Raises:
            ServiceCrashedError: a bug in the background stopped it.
            ConfigError: this is a listener of its own.
        """
        if self._current.is_waited_for:
            raise ConfigError(
                f"run_forever in a listener of {self!r} would wait for that same listener: call it elsewhere"
            )
        # Before the start, so that a signal that arrives while the consumer starts closes it in order too.
        with listen_to_signals() as first_signal:
            if self._lifecycle.state is State.NEW:
                async with self:
                    await self._until(first_signal)
            else:
                self._check_usable()
                await self._until(first_signal)

    async def _until(self, first_signal: Callable[[], Awaitable[None]]) -> None:
        """Wait for a signal, or for the end of the consumer."""
        ended = self._current.check_running().ended
        async with trio.open_nursery() as nursery:

            async def wait_signal() -> None:
                await first_signal()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_signal)
            await ended.wait()
            nursery.cancel_scope.cancel()
        if self._current.crash is not None:
            raise self._current.crash

    def _hurry(self) -> None:
        """While it closes: wait no longer for listeners. For `Opened`."""
        if self._running is not None:
            self._running.hurry()

    def _check_usable(self) -> None:
        """Refuse use if the consumer has crashed, or is not open."""
        self._current.check_crash()
        self._lifecycle.check_open()

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, listener: Listener, *, tags: str | None = None, sql: str | None = None) -> None:
        """Have a listener called with the messages of a topic. May be called before or after the start.

        Subscribing to a topic again replaces its listener and its filter. The listener is a plain or async function of
        one message, or of a list of messages if `consume_message_batch_max_size` is over 1. Returning None is success;
        an exception, `ConsumeResult.RETRY`, `RetryLater` and taking longer than `consume_timeout` mean that the message
        comes again later.

        Args:
            topic: the topic.
            listener: the function to call.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as an SQL92 expression; brokers must have `enablePropertyFilter`. If a broker refuses
                it, the start raises FilterRefusedError; later the error is in the log and in `status().errors`.

        Raises:
            ConfigError: one of these cannot be used.
        """
        self._subscriptions.add(topic, listener, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic.

        Args:
            topic: its name.

        Raises:
            ConfigError: the topic is not subscribed.
        """
        self._subscriptions.remove(topic)

    # --- pausing, committing --------------------------------------------------------------------------

    def pause(self, what: Pausable = None) -> None:
        """Stop getting messages of a topic, of queues, or of everything, until `resume`. Thread-safe.

        Messages that were already pulled are still consumed. Queues that this consumer gets later are paused as well.
        Other members of the group do not take over.

        Args:
            what: topics and queues; everything if there are none.

        Raises:
            ConfigError: this is neither a subscribed topic nor queues.
        """
        self._change_pauses(self._pauses.add, what)

    def resume(self, what: Pausable = None) -> None:
        """Get messages again; of everything if called without an argument. Thread-safe.

        Args:
            what: topics and queues; everything if there are none.

        Raises:
            ConfigError: this is neither a subscribed topic nor queues.
        """
        self._change_pauses(self._pauses.remove, what)

    def _change_pauses(self, change: Callable[[Any], None], what: Pausable) -> None:
        meant = checked(what, self._subscriptions.user_topics)
        running = self._running
        if running is None:
            change(meant)
            return

        def change_in_loop() -> None:
            change(meant)
            running.assignment.pauses_changed()

        running.in_loop(change_in_loop)

    def set_consume_thread_max(self, most: int) -> None:
        """Change how many listeners may run at the same time, while the consumer runs. Thread-safe.

        Args:
            most: 1 to 1,000, like `consume_thread_max` of the config. Running listeners are not interrupted.

        Raises:
            ConfigError: it is not such a number.
            ClientClosedError: the consumer is not open.
        """
        number("consume_thread_max", most, (int,))
        if not 1 <= most <= MOST_THREADS:
            raise ConfigError(f"consume_thread_max must be between 1 and {MOST_THREADS}, not {most!r:.100}")
        self._lifecycle.check_open()
        running = self._current.check_running()
        running.in_loop(partial(running.consume.set_most, most))

    async def commit(self, timeout: float | timedelta | None = None) -> None:
        """Commit what is consumed so far in all queues of this consumer, and wait until the brokers confirm it.

        You rarely need it: the consumer commits every `persist_consumer_offset_interval`, when queues go, and on
        closing. It also works in `on_revoked`.

        Args:
            timeout: seconds to wait; `request_timeout` when None.

        Raises:
            ConfigError: the timeout cannot be used.
            RequestTimeoutError: some of it is not committed; the log says why, and the next commit repeats it.
            ConfigError: the caller is `write` of its own `offset_store`.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        self._current.check_may_commit()
        await self._commit(timeout, self._current.is_waited_for)

    async def _commit(self, timeout: float | timedelta | None, is_waited_for: bool) -> None:
        running = self._running
        if running is None or running.ended.is_set():
            self._check_usable()
        running = self._current.check_running()
        self._lifecycle.check_loop()
        limit = self.client.config.request_timeout if timeout is None else checked_seconds("timeout", timeout)
        left = await running.commit(deadline=trio.current_time() + limit, is_waited_for=is_waited_for)
        if left:
            raise RequestTimeoutError(
                f"the offsets of {counted(len(left), 'queue')} of {self.config.group} are not committed within "
                f"{limit:g} s: " + ", ".join(map(str, left[:3])) + (", ..." if len(left) > 3 else ""),
                timeout=limit,
            )

    async def lag(self, timeout: float | timedelta | None = None) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many of its messages are not consumed yet, unwanted ones included.

        Queues of the retry topic are among them, as in `status().queues`.

        Args:
            timeout: seconds to wait for all brokers together; `request_timeout` when None.

        Raises:
            ConfigError: the timeout cannot be used.
            RequestTimeoutError: it took longer.
            RocketMQError: a broker cannot be reached, or refuses.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        limit = self.client.config.request_timeout if timeout is None else checked_seconds("timeout", timeout)
        self._check_usable()
        running = self._current.check_running()
        self._lifecycle.check_loop()
        found: dict[MessageQueue, int] = {}
        with trio.move_on_after(limit) as waiting:
            found = await running.lag()
        if waiting.cancelled_caught:
            raise RequestTimeoutError(
                f"the brokers have not reported the ends of the queues of {self.config.group} within {limit:g} s",
                timeout=limit,
            )
        return found

    # --- looking: what does not wait may be called by any thread ----------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of the subscribed topics that this consumer has now."""
        return tuple(queue for queue in super().assignment if queue.topic != self._subscriptions.retry_topic)

    def status(self) -> PushConsumerStatus:
        """The current state: topics, queues, the messages held from them, and errors; closed in the child of a fork."""
        running = self._current.shown
        return PushConsumerStatus(
            state=self._lifecycle.shown.value,
            client_id=self.client.client_id,
            group=self.config.group,
            topics=self._subscriptions.user_topics,
            balanced=running is not None and running.rebalance.is_up_to_date,
            queues={} if running is None else running.queues(),
            locks={} if running is None else running.assignment.locks(running.now()),
            errors={} if running is None else running.rebalance.problems(),
            crash=self._current.crash,
        )

    def statistics(self) -> PushConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return statistics(self._current.check_running(), self._around.duplicates, self._subscriptions.topics)

    def _wanted_topics(self) -> Collection[str]:
        return self._subscriptions.topics
