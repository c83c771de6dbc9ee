"""LitePullConsumer, on trio: messages are pulled ahead in the background and handed out by polls.

What exists only while it runs is in `running.RunningLitePull`. Plays the part of DefaultLitePullConsumer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Self, Unpack, final

import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import State
from rocketpy.config import LitePullConsumerConfig
from rocketpy.consumer.arguments import checked_count, checked_offset, checked_queue, checked_seconds
from rocketpy.consumer.lite.positions import Positions
from rocketpy.consumer.lite.running import RunningLitePull
from rocketpy.consumer.lite.selection import Selection
from rocketpy.consumer.lite.status import (
    LitePullConsumerStatistics,
    LitePullConsumerStatus,
    queue_statuses,
    statistics,
)
from rocketpy.consumer.queue_watch import QueuesFunction, QueueWatch
from rocketpy.consumer.start_checks import check_filters, check_heartbeats, check_name_servers, wait_shared_out
from rocketpy.consumer.user_calls import AsyncCaller, UserCalls, call_in_this_loop
from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.wire.bodies.heartbeat import ConsumerData
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from datetime import timedelta

    from rocketpy.client.roles import Driven
    from rocketpy.config.typed import LitePullConsumerSettings
    from rocketpy.consumer.lite.cache import Part
    from rocketpy.consumer.pull import QueuePuller
    from rocketpy.remoting.network import Network
    from rocketpy.trace.consumes import ConsumeTracer

__all__ = ["MOST_MESSAGES", "LitePullConsumer"]

logger = get_logger(__name__)

MOST_MESSAGES = 1_000_000
"""What one poll may ask for."""


@final
class LitePullConsumer(Positions):
    """Hands out messages on demand: ``async with rocketpy.LitePullConsumer("billing") as consumer:``.

    It either shares the queues of topics with its group (`subscribe`), or has queues that you choose (`assign`). It
    pulls ahead from all of them, and hands out messages with `poll`, or one by one with ``async for message in
    consumer``. Messages of a queue come in order. Any task of its trio loop may use its methods; when several tasks
    poll, each message goes to one of them.

    There are three ways to commit offsets:

    * Automatically (`auto_commit`): polling again means that everything handed out before is done, and this is
      committed every `auto_commit_interval`. Messages from the last poll are never committed automatically, not even
      when the consumer closes: a program that ends or dies before it polls again gets them again.
    * With `commit` or `commit_soon`: everything handed out so far is done.
    * With `ack`, message by message. Once `ack` has been called, a commit of any kind stops before the lowest message
      that was handed out and not acknowledged. Use it when several tasks work on messages, together with
      ``auto_commit=True`` or with `commit`.

    Args:
        group: name of the consumer group.
        config: the settings; `group` and `fields` override them.
        client: a client to share; None for one of its own.
        network: where a client of its own gets its connections.
        async_caller: calls the user's async functions, for surfaces that run them in a loop of their own.
        fields: settings by name, as in `LitePullConsumerConfig`.

    Raises:
        ConfigError: a setting cannot be used.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: LitePullConsumerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        async_caller: AsyncCaller = call_in_this_loop,
        **fields: Unpack[LitePullConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["async_caller"] = async_caller
        base = config if config is not None or not isinstance(client, MQClientInstance) else client.config
        self.config = LitePullConsumerConfig.of(base, group=group, **fields)
        super().__init__(self.config, client, network)
        self._selection = Selection(self._subscriptions_changed)
        self._watch = QueueWatch()
        self._async_caller = async_caller
        self._tracer: ConsumeTracer | None = None
        self._seldom = Seldom(logger)

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<LitePullConsumer {self.config.group} {self._lifecycle.shown.value}>"

    def _make_again(self, *, crossed_fork: bool) -> None:
        selection, watch = self._selection, self._watch
        super()._make_again(crossed_fork=crossed_fork)
        self._selection.adopt(selection)
        self._watch.adopt(watch)

    def adopt(self, former: LitePullConsumer) -> None:
        """For other surfaces: take over the subscriptions and callbacks of the consumer that this one replaces."""
        self._selection.adopt(former._selection)
        self._watch.adopt(former._watch)

    # --- life -----------------------------------------------------------------------------------------

    async def _open(self, stack: AsyncExitStack) -> None:
        """Start, and return after the first rebalance, or after `start_timeout`."""
        deadline = trio.current_time() + self.config.start_timeout
        if self.config.enable_msg_trace:
            from rocketpy.trace.consumes import traced_consumption  # few consumers are traced

            self._tracer = await stack.enter_async_context(traced_consumption(self.client, self.config))
        running = RunningLitePull(self.client, self.config, self._selection, UserCalls(self._async_caller))
        await running.open(stack, self.config.close_timeout)
        await self._run_background(stack, running)
        await check_name_servers(self.client, self.topics(), deadline)
        await check_filters(running.rebalance.filters, deadline)
        self.client.register_consumer(self.config.group, self)
        self._running = running
        running.start_services()
        running.start_reports(self.config, self.statistics, running.calls)
        running.start_service(self._watch_queues)
        await wait_shared_out(running.rebalance, self.config, deadline)
        check_heartbeats(self.client, self.config.group, running.rebalance.told)

    async def _watch_queues(self) -> None:
        await self._watch.run(self.client.routes, self._check_running().calls)

    def _check_usable(self) -> RunningLitePull:
        """The running part; refuses use if the consumer has crashed, is not open, or belongs to another loop."""
        self.check_crash()
        self.check_open()
        self._lifecycle.check_loop()
        running = self._check_running()
        self.client.check_open()
        return running

    def check_open(self) -> None:
        """Refuse use while it is not open. For any thread.

        While `on_assigned` or `on_revoked` runs it counts as open, even during its start or close.

        Raises:
            ClientClosedError: it is not open, or was opened before a fork.
        """
        running = self._running
        if running is None or not running.hooks.under_way or self._lifecycle.crossed_fork:
            self._lifecycle.check_open()

    @property
    def in_hook(self) -> bool:
        """Whether the caller is a function of the user's that closing waits for."""
        return self._running is not None and self._running.calls.is_inside

    def _find(self, queue: MessageQueue) -> QueuePuller | None:
        return None if self._running is None else self._running.assignment.get(queue)

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Consume a topic whose queues the group shares. May be called before or after the start.

        Args:
            topic: the topic.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as an SQL92 expression; brokers must have `enablePropertyFilter`.

        Raises:
            ConfigError: one of these cannot be used, or `assign` was used before.
            ClientClosedError: the consumer is closed.
        """
        self._check_not_closed()
        self._selection.subscribe(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic.

        Args:
            topic: its name.

        Raises:
            ConfigError: the topic is not subscribed.
        """
        self._selection.unsubscribe(topic)

    def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None, sql: str | None = None) -> None:
        """Consume exactly these queues, whatever other members of the group have. Before or after the start.

        Queues that it already has continue where they are. A queue given twice is taken once.

        Args:
            queues: such as `fetch_message_queues` gives.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as an SQL92 expression; brokers must have `enablePropertyFilter`.

        Raises:
            ConfigError: one of these cannot be used, there is no queue, or `subscribe` was used before.
            ClientClosedError: the consumer is closed.
        """
        self._check_not_closed()
        self._selection.assign(queues, tags, sql)

    def _check_not_closed(self) -> None:
        if self._lifecycle.state is State.CLOSED and not self._lifecycle.crossed_fork:
            self._lifecycle.check_open()

    def on_queues_changed(self, topic: str, function: QueuesFunction) -> None:
        """Have a function called with a topic and its queues whenever the queues of the topic change.

        An async function is awaited in the loop, a plain one is called in a thread. A topic has one function; another
        call replaces it.

        Args:
            topic: any topic; it need not be consumed.
            function: of a topic and a tuple of its queues.

        Raises:
            ConfigError: one of these cannot be used.
        """
        check_topic(topic)
        self._watch.add(topic, function)
        running = self._running
        if running is not None:
            running.in_loop(self._watch_more)

    def _watch_more(self) -> None:
        if self._running is not None and not self._running.closing:
            self._running.start_service(self._find_watched)

    async def _find_watched(self) -> None:
        await self.client.routes.refresh_all(self._watch.topics)
        self._watch.look()

    # --- messages -------------------------------------------------------------------------------------

    async def poll(
        self, max_messages: int | None = None, *, timeout: float | timedelta | None = None
    ) -> list[MessageExt]:
        """Return the next messages, as soon as there are any, or an empty list if none arrive in time.

        Cancelling it loses nothing: the messages go to the next poll.

        Args:
            max_messages: how many at most; `pull_batch_size` when None.
            timeout: seconds to wait for the first one; `poll_timeout` when None. 0 returns what is there at once.

        Raises:
            ConfigError: an argument cannot be used, or nothing is subscribed or assigned.
            NoPermissionError, RequestCodeNotSupportedError: a broker refuses lite pulls.
            ClientClosedError: the consumer is not open, or is closing.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        return [message for part in await self.lend(max_messages, timeout) for message in part.messages]

    async def lend(self, max_messages: int | None, timeout: float | timedelta | None) -> list[Part]:
        """What `poll` gives, in parts, for surfaces that may have to give some of it back. Raises what it raises."""
        most = self.config.pull_batch_size
        if max_messages is not None:
            most = checked_count("max_messages", max_messages, MOST_MESSAGES)
        patience = self.config.poll_timeout if timeout is None else checked_seconds("timeout", timeout)
        running = self._check_usable()
        self._lifecycle.check_open()
        await trio.lowlevel.checkpoint()
        # No checkpoint lies between taking messages and giving them.
        running.cache.polled()
        parts = running.cache.take(most)
        if not parts:
            with trio.move_on_after(patience):
                while not parts:
                    self._check_may_arrive(running)
                    await running.cache.arrival.wait()
                    parts = running.cache.take(most)
        if self._tracer is not None:
            for part in parts:
                self._tracer.polled(part.messages)
        return parts

    def give_back(self, parts: Iterable[Part]) -> None:
        """For other surfaces: these were lent and have reached nobody; they are handed out next."""
        if self._running is not None:
            self._running.cache.give_back(parts)

    def _check_may_arrive(self, running: RunningLitePull) -> None:
        """Refuse to wait for messages that cannot come."""
        if running.closing and self._crash is None:
            self._lifecycle.check_open()
            self.client.check_open()
        self._check_usable()
        if not self._selection.topics:
            raise ConfigError("nothing is subscribed or assigned: call subscribe(topic) or assign(queues) first")
        running.cache.check_refused()

    def __aiter__(self) -> Self:
        """Iterate over messages until the consumer closes; see the class for what is committed meanwhile."""
        return self

    async def __anext__(self) -> MessageExt:
        """Wait for the next message; asking for it means that the previous one is done."""
        try:
            parts = await self.lend(1, math.inf)
        except ClientClosedError:
            if self.has_ended():
                raise StopAsyncIteration from None
            raise
        return parts[0].messages[0]

    def has_ended(self) -> bool:
        """Whether it was closed in good order, or is being closed."""
        return self._crash is None and self._lifecycle.state in (State.CLOSING, State.CLOSED)

    # --- commits --------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | None = None, *, timeout: float | timedelta | None = None
    ) -> None:
        """Commit, and wait until the brokers have confirmed it.

        This commits everything handed out so far, from all queues that this consumer has; once `ack` is used, only
        up to the first message that is not acknowledged. Queues that have moved to another member are left out: that
        member gets again what was not committed before.

        Args:
            offsets: commit these and nothing else: for each queue the offset of the next message to consume. An offset
                beyond everything pulled so far is committed too, with a warning.
            timeout: seconds to wait; `request_timeout` when None.

        Raises:
            ConfigError: an argument cannot be used, or the caller is `write` of its own `offset_store`.
            QueueNotAssignedError: `offsets` has a queue that this consumer does not have; nothing is committed.
            RequestTimeoutError: a broker has not answered in time. The commit is repeated soon.
            RocketMQError: a broker cannot be reached, or refuses. The commit is repeated soon.
        """
        self.check_may_commit()
        running = self._check_usable()
        budget = self.client.config.request_timeout if timeout is None else checked_seconds("timeout", timeout)
        wanted = self._settle(running, offsets)
        with trio.move_on_after(budget) as waiting:
            await running.offsets.commit(wanted)
        if waiting.cancelled_caught:
            raise RequestTimeoutError(
                f"not every broker confirmed the offsets of {self.config.group} within {budget:g} s; the commit is "
                "repeated soon",
                timeout=budget,
            )

    def commit_soon(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit without waiting; a failure is logged, and the commit repeated at the next interval.

        Args:
            offsets: as for `commit`.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: `offsets` has a queue that this consumer does not have; nothing is committed.
        """
        running = self._check_usable()
        running.commit_soon(tuple(self._settle(running, offsets)))

    def _settle(
        self, running: RunningLitePull, offsets: Mapping[MessageQueue, int] | None
    ) -> Mapping[MessageQueue, int]:
        """The offsets to commit, which are recorded."""
        wanted = self.check_offsets(offsets)
        if wanted is None:
            return running.cache.settle()
        for queue, offset in wanted.items():
            pulled = self._ours(queue).process_queue.position
            if offset > pulled:
                self._seldom.warning(
                    ("ahead", queue),
                    "committing offset %d of %s, which was pulled only up to %d: nobody gets the messages in between. "
                    "To skip messages on purpose, use seek",
                    offset,
                    queue,
                    pulled,
                )
            running.offsets.note(queue, offset)
        return wanted

    def check_offsets(self, offsets: Mapping[MessageQueue, int] | None) -> Mapping[MessageQueue, int] | None:
        """For other surfaces: return the offsets to commit, if this consumer has their queues. For any thread."""
        if offsets is None:
            return None
        if not isinstance(offsets, Mapping):
            raise ConfigError(f"offsets must be a dict of queues and offsets, not {offsets!r:.100}")
        wanted = {checked_queue(queue): checked_offset(offset) for queue, offset in offsets.items()}
        self.check_assigned(wanted)
        return wanted

    def ack(self, message: MessageExt) -> None:
        """Mark one message as done. It is committed once everything before it in its queue is acknowledged too.

        This does not commit by itself: `auto_commit` or `commit` does. If the queue has moved to another member, it
        has no effect, and that is logged.

        Args:
            message: a message that was handed out.

        Raises:
            ConfigError: this is not a message.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"ack needs a message that this consumer handed out, not {message!r:.100}")
        self._check_usable()
        self.acknowledge(message)

    def acknowledge(self, message: MessageExt) -> None:
        """For other surfaces: as `ack`, but has no effect on a consumer that is closed by now."""
        running = self._running
        if running is None or (running.closing and not running.hooks.under_way):
            return
        if not running.cache.acknowledge(message.queue, message.queue_offset):
            self._seldom.warning(
                message.queue,
                "the ack of offset %d of %s is ignored: it was not handed out, was acknowledged before, or the queue "
                "now belongs to another member",
                message.queue_offset,
                message.queue,
            )

    # --- looking: what does not wait may be called by any thread ----------------------------------------

    @property
    def _group(self) -> str:
        return self.config.group

    def status(self) -> LitePullConsumerStatus:
        """The current state: topics, queues, the messages held from them, and errors; closed in the child of a fork."""
        running = self._shown
        return LitePullConsumerStatus(
            state=self._lifecycle.shown.value,
            client_id=self.client.client_id,
            group=self.config.group,
            topics=self._selection.topics,
            balanced=running is not None and running.rebalance.is_up_to_date,
            queues=queue_statuses(running),
            errors={} if running is None else running.rebalance.problems(),
            crash=self._crash,
        )

    def statistics(self) -> LitePullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return statistics(self._check_running(), self._selection.topics)

    # --- what the client asks of a consumer -------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """What heartbeats tell brokers about this consumer."""
        return ConsumerData(
            group_name=self.config.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=self.config.message_model,
            consume_from_where=self.config.consume_from_where,
            subscription_data_set=self._selection.data(),
            unit_mode=self.config.unit_mode,
        )

    def topics(self) -> tuple[str, ...]:
        """The topics whose routes the client must keep fresh."""
        return tuple(dict.fromkeys((*self._selection.topics, *self._watch.topics)))

    @property
    def driven(self) -> Driven | None:
        """What carries out requests of brokers; None while the consumer does not run."""
        return None if self._running is None else self._running.driven

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic has changed."""
        self._watch.look()
        super().on_route_changed(topic)

    def _wanted_topics(self) -> Collection[str]:
        return self._selection.topics
