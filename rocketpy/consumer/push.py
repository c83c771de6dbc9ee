"""PushConsumer: gets messages and calls listeners, on trio. Plays the part of DefaultMQPushConsumer.

What happens while it runs is the business of `running.RunningConsumer`, which also closes it in order.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, final

import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import Lifecycle, NotPicklable, State
from rocketpy.client.sharing import check_shared
from rocketpy.config import PushConsumerConfig
from rocketpy.consumer.runners import RunnerMaker, TaskRunner
from rocketpy.consumer.running import RunningConsumer
from rocketpy.consumer.status import PushConsumerStatistics, PushConsumerStatus, queue_status, statistics
from rocketpy.consumer.subscription import Listener, Subscriptions
from rocketpy.consumer.thread_runner import runner_for_plain_listeners
from rocketpy.errors import (
    ConfigError,
    NameServerUnreachableError,
    RequestTimeoutError,
    RocketMQError,
    ServiceCrashedError,
)
from rocketpy.logs import get_logger
from rocketpy.results import MessageModel
from rocketpy.services import open_services, side_by_side
from rocketpy.wire.bodies.heartbeat import ConsumerData
from rocketpy.wire.enums import ConsumeType

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network

__all__ = ["PushConsumer"]

logger = get_logger(__name__)


@final
class PushConsumer(NotPicklable):
    """Consumes: ``async with rocketpy.PushConsumer("billing", namesrv="127.0.0.1:9876") as consumer:``.

    Its methods may be used by any task of its trio loop. Plain listeners run in threads, side by side; async listeners
    run as tasks of the loop.

    Args:
        group: name that the consumers of one purpose share.
        config: the settings; `group` and `fields` count over them.
        client: a client to share; without it the consumer has one of its own.
        network: where connections come from, for a client of its own.
        plain_runner: calls plain listeners; for surfaces that have a place of their own for them.
        async_runner: calls async listeners; likewise.
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
        plain_runner: RunnerMaker = runner_for_plain_listeners,
        async_runner: RunnerMaker = TaskRunner,
        **fields: Any,
    ) -> None:
        if group is not None:
            fields["group"] = group
        check_shared(client, network)
        base = config if config is not None or client is None else client.config
        self.config = PushConsumerConfig.of(base, **fields)
        if self.config.message_model is not MessageModel.CLUSTERING:
            raise ConfigError(
                "broadcasting is not supported: to let every consumer get all messages give each a group of its own"
            )
        self._owns_client = client is None
        self._network = network
        self.client = MQClientInstance(self.config, network=network) if client is None else client
        self._runners = (plain_runner, async_runner)
        self._lifecycle = Lifecycle(f"consumer {self.config.group}")
        self._subscriptions = Subscriptions(self.config.group, self._subscriptions_changed)
        self._running: RunningConsumer | None = None
        self._stack: AsyncExitStack | None = None

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<PushConsumer {self.config.group} {self._lifecycle.state.value}>"

    # --- life -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start. Returns when the queues of what is subscribed have been shared out for the first time.

        It takes `start_timeout` at most: what was not reached by then is waited for afterwards, as are a topic that
        does not exist yet and a broker that is away: see `wait_assigned`.

        Raises:
            ClientClosedError: it was started before, or the shared client is not open.
            ConfigError: the shared client has a consumer of this group already.
            NameServerUnreachableError: no name server answers.
        """
        if not self._owns_client:
            self.client.check_here()
        self._lifecycle.begin()
        deadline = trio.current_time() + self.config.start_timeout
        try:
            async with AsyncExitStack() as stack:
                if self._owns_client:
                    await stack.enter_async_context(self.client)
                running = RunningConsumer(self.client, self.config, self._subscriptions, self._runners)
                nursery = await stack.enter_async_context(open_services())
                await nursery.start(running.run)
                stack.push_async_callback(running.close)
                await self._check_name_servers(deadline)
                self.client.register_consumer(self.config.group, self)
                self._running = running
                running.start_services()
                with trio.move_on_at(deadline):
                    await running.rebalance.wait_round()
                if not running.rebalance.rounds:
                    logger.warning(
                        "consumer %s has started within %g s without all of its topics, and goes on looking: %s",
                        self.config.group,
                        self.config.start_timeout,
                        running.rebalance.missing(),
                    )
                self._stack = stack.pop_all()
        except BaseException:  # cancellation too: what did not start may be started again
            self._running = None
            if self._owns_client:
                # The old one was closed on the way out, for good.
                self.client = MQClientInstance(self.config, network=self._network)
            self._lifecycle.failed()
            raise
        self._lifecycle.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close, in the order that `running` begins with. Listeners get `await_termination` seconds."""
        stack, self._stack = self._stack, None
        if stack is None or not self._lifecycle.closing():
            return None
        try:
            return await stack.__aexit__(kind, error, traceback)
        finally:
            self._lifecycle.closed()

    async def _check_name_servers(self, deadline: float) -> None:
        """An address that is wrong is told at the start, not found out later."""
        unreachable: list[NameServerUnreachableError] = []

        async def check(topic: str) -> None:
            timeout = min(self.client.config.request_timeout, max(0.001, deadline - trio.current_time()))
            try:
                await self.client.routes.ensure_subscribe(topic, timeout=timeout)
            except NameServerUnreachableError as error:
                unreachable.append(error)
            except RocketMQError as error:
                logger.debug("%s: %s", topic, error)  # found out again, and told, when its queues are shared out

        await side_by_side(check, self._subscriptions.user_topics)
        if unreachable:
            raise unreachable[0]

    async def run_forever(self) -> None:
        """Consume until SIGINT or SIGTERM, then return, for `async with` to commit and close.

        Outside of `async with` it starts the consumer itself, and closes it. It returns, too, when the consumer is
        closed meanwhile. A second signal strikes as usual.

        Raises:
            ServiceCrashedError: a bug in the background stopped it.
            ConfigError: this is a listener of its own.
        """
        if self.in_listener:
            raise ConfigError(
                f"run_forever in a listener of {self!r} would wait for that very listener: call it elsewhere"
            )
        # Listening before the start: a signal that comes while it starts ends it in good order as well.
        with _listen_to_signals() as first_signal:
            if self._lifecycle.state is State.NEW:
                async with self:
                    await self._until(first_signal)
            else:
                self._check_usable()
                await self._until(first_signal)

    async def _until(self, first_signal: Callable[[], Awaitable[None]]) -> None:
        """Wait for a signal, or for the end."""
        ended = self._check_running().ended
        async with trio.open_nursery() as nursery:

            async def wait_signal() -> None:
                await first_signal()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_signal)
            await ended.wait()
            nursery.cancel_scope.cancel()
        if self._crash is not None:
            raise self._crash

    @property
    def _crash(self) -> ServiceCrashedError | None:
        """The bug in the background that ended it; None when it was not one."""
        return None if self._running is None else self._running.crash

    def _check_usable(self) -> None:
        """Refuse to wait for what has crashed, or is not open."""
        if self._crash is not None:
            # An error of each caller's own: tracebacks must not gather on one that all share.
            raise ServiceCrashedError(f"consumer {self.config.group} has crashed: {self._crash}") from self._crash
        self._lifecycle.check_open()

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, listener: Listener, *, tags: str | None = None, sql: str | None = None) -> None:
        """Let a listener get the messages of a topic, before the start or after it.

        The listener is a plain or an async function of one message; of a list of them when
        `consume_message_batch_max_size` is over 1. Returning None is success; an exception, `ConsumeResult.RETRY`,
        `RetryLater` and taking longer than `consume_timeout` mean that the message comes again later.

        Args:
            topic: the topic.
            listener: who gets the messages.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as SQL92 over their properties; brokers must be set up for it.

        Raises:
            ConfigError: one of these cannot be used.
        """
        self._subscriptions.add(topic, listener, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Get no more messages of a topic.

        Raises:
            ConfigError: it is not subscribed.
        """
        self._subscriptions.remove(topic)

    def _subscriptions_changed(self) -> None:
        running = self._running
        if running is not None:  # else the start finds what is subscribed
            running.in_loop(running.subscriptions_changed)

    # --- looking: what does not wait may be called by any thread ----------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of the subscribed topics that are ours now."""
        if self._running is None:
            return ()
        queues = self._running.assignment.queues()
        return tuple(queue for queue in queues if queue.topic != self._subscriptions.retry_topic)

    async def wait_assigned(self, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """Wait until at least one queue is ours. In a group with more members than queues that may be never.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background ended it.
        """
        self._check_usable()
        self._lifecycle.check_here()
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            await trio.lowlevel.checkpoint()
            while not self.assignment:
                self._check_usable()
                self.client.check_open()
                await self._check_running().rebalance.wait_round()
        if not self.assignment:
            reasons = self._check_running().rebalance.missing()
            raise RequestTimeoutError(
                f"consumer {self.config.group} got no queue within {timeout:g} s: "
                + (reasons or "nothing is subscribed, or other members have all queues"),
                timeout=timeout,
            )
        return self.assignment

    def status(self) -> PushConsumerStatus:
        """How it is: topics, queues, what is held of them, and what goes wrong."""
        running = self._running
        return PushConsumerStatus(
            state=self._lifecycle.state.value,
            client_id=self.client.client_id,
            group=self.config.group,
            topics=self._subscriptions.user_topics,
            balanced=running is not None and running.rebalance.balanced,
            queues={}
            if running is None
            else {each.queue: queue_status(each, running.now()) for each in running.assignment},
            errors={} if running is None else dict(running.rebalance.errors),
            crash=self._crash,
        )

    def statistics(self) -> PushConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        running = self._check_running()
        return statistics(
            running.rebalance.rounds, running.parts.counters, running.consume.counters, running.send_back.as_new_message
        )

    @property
    def in_listener(self) -> bool:
        """Whether this is called by one of its listeners, which must not wait for the consumer to close."""
        return self._running is not None and self._running.consume.in_listener

    def _check_running(self) -> RunningConsumer:
        if self._running is None:
            self._lifecycle.check_open()
            raise AssertionError("an open consumer runs")
        return self._running

    # --- what the client asks of a consumer -------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """What brokers shall know."""
        return ConsumerData(
            group_name=self.config.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=self.config.message_model,
            consume_from_where=self.config.consume_from_where,
            subscription_data_set=self._subscriptions.data(),
        )

    def topics(self) -> Iterable[str]:
        """Topics whose routes must be kept fresh."""
        return self._subscriptions.topics

    def rebalance_now(self) -> None:
        """The members of the group changed."""
        if self._running is not None:
            self._running.rebalance.soon()

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic is another one now."""
        if topic in self._subscriptions.topics:
            self.rebalance_now()

    def client_closing(self) -> None:
        """A shared client closes before the consumer does: what is not committed yet cannot be."""
        if self._running is None:
            return
        if self.client.crash is not None:
            self._running.fail(self.client.crash)
        self._running.stop_pulling()


@contextmanager
def _listen_to_signals() -> Iterator[Callable[[], Awaitable[None]]]:
    """Gives what waits for SIGINT or SIGTERM and lets the next one strike; forever in a thread that gets no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield trio.sleep_forever
        return
    with ExitStack() as listening:
        signals = listening.enter_context(trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM))

        async def first() -> None:
            number = await anext(signals)
            listening.close()
            logger.info("stopping, for %s came", signal.Signals(number).name)

        yield first
