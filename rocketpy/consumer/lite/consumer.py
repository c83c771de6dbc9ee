"""LitePullConsumer, on trio: messages are pulled ahead in the background and handed out by polls.

What exists only while it runs is in `running.RunningLitePull`. Plays the part of DefaultLitePullConsumer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Self, Unpack, final

import trio

from rocketpy.client.arguments import checked_seconds
from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import State
from rocketpy.config import LitePullConsumerConfig
from rocketpy.consumer.fetching import Fetching
from rocketpy.consumer.lite.access import Access
from rocketpy.consumer.lite.commits import Commits
from rocketpy.consumer.lite.outside import LiteOutside
from rocketpy.consumer.lite.polling import Polling
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
from rocketpy.consumer.roles import SharingRole
from rocketpy.consumer.sharing import Sharing
from rocketpy.consumer.start_checks import check_filters, check_heartbeats, check_name_servers, wait_shared_out
from rocketpy.consumer.surface import ON_TRIO, ConsumerSurface
from rocketpy.consumer.user_calls import UserCalls
from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from contextlib import AsyncExitStack
    from datetime import datetime, timedelta

    from rocketpy.config.typed import LitePullConsumerSettings
    from rocketpy.remoting.network import Network
    from rocketpy.trace.consumes import ConsumeTracer

__all__ = ["LitePullConsumer"]


@final
class LitePullConsumer(Fetching, Sharing[RunningLitePull]):
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
        _surface: ConsumerSurface = ON_TRIO,
        **fields: Unpack[LitePullConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["_surface"] = _surface
        base = config if config is not None or not isinstance(client, MQClientInstance) else client.config
        self.config = LitePullConsumerConfig.of(base, group=group, **fields)
        super().__init__(self.config, client, network)
        self._selection = Selection(self._subscriptions_changed)
        self._watch = QueueWatch()
        self._surface = _surface
        access = self._access = Access(self._current, self.config.group)
        polling = self._polling = Polling(self._current, access, self.config, self._selection)
        commits = self._commits = Commits(self._current, access)
        self._positions = Positions(access)
        self.outside = LiteOutside(self._current, access, polling, commits, self._adopt)  # for the other surfaces

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<LitePullConsumer {self.config.group} {self._lifecycle.shown.value}>"

    def _make_again(self, *, crossed_fork: bool) -> None:
        selection, watch = self._selection, self._watch
        super()._make_again(crossed_fork=crossed_fork)
        self._selection.adopt(selection)
        self._watch.adopt(watch)

    def _adopt(self, former: LitePullConsumer) -> None:
        """Take over the subscriptions and callbacks of the consumer that this one replaces. For other surfaces."""
        self._selection.adopt(former._selection)
        self._watch.adopt(former._watch)

    # --- life -----------------------------------------------------------------------------------------

    async def _open(self, stack: AsyncExitStack) -> None:
        """Start, and return after the first rebalance, or after `start_timeout`."""
        deadline = trio.current_time() + self.config.start_timeout
        tracer: ConsumeTracer | None = None
        if self.config.enable_msg_trace:
            from rocketpy.trace.consumes import traced_consumption  # few consumers are traced

            tracer = await stack.enter_async_context(traced_consumption(self.client, self.config))
        calls = UserCalls(self._surface.async_caller)
        running = RunningLitePull(self.client, self.config, self._selection, calls, tracer)
        kind = ConsumeType.CONSUME_ACTIVELY
        role = SharingRole(self.client, self.config, kind, self._selection, running, self._watch)
        await running.open(stack, self.config.close_timeout)
        await self._run_background(stack, running)
        await check_name_servers(self.client, role.topics(), deadline)
        await check_filters(running.filters, deadline)
        running.join(role)
        self._current.started(running)
        running.start_services()
        running.start_reports(self.config, self.statistics, running.calls)
        running.start_service(self._watch_queues)
        await wait_shared_out(running.rebalance, self.config, deadline)
        check_heartbeats(self.client, self.config.group, running.rebalance.told)

    async def _watch_queues(self) -> None:
        await self._watch.run(self.client.routes, self._current.check_running().calls)

    @property
    def _group(self) -> str:
        return self.config.group

    def _check_usable(self) -> RunningLitePull:
        return self._access.usable()

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
        return [message for part in await self._polling.lend(max_messages, timeout) for message in part.messages]

    def __aiter__(self) -> Self:
        """Iterate over messages until the consumer closes; see the class for what is committed meanwhile."""
        return self

    async def __anext__(self) -> MessageExt:
        """Wait for the next message; asking for it means that the previous one is done."""
        try:
            parts = await self._polling.lend(1, math.inf)
        except ClientClosedError:
            if self._current.has_ended:
                raise StopAsyncIteration from None
            raise
        return parts[0].messages[0]

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
        self._current.check_may_commit()
        running = self._access.usable()
        budget = self.client.config.request_timeout if timeout is None else checked_seconds("timeout", timeout)
        wanted = self._commits.settle(running, offsets)
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
        running = self._access.usable()
        running.commit_soon(tuple(self._commits.settle(running, offsets)))

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
        self._access.usable()
        self._commits.acknowledge(message)

    # --- single queues --------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that a poll will hand out from a queue. Thread-safe.

        Args:
            queue: a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
        """
        return self._positions.position(queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue, as its broker has it; None when nothing was ever committed.

        If a file or an `offset_store` keeps the offsets, it is asked instead. A broker of 4.x answers 0 for a group
        without an offset if the queue still has its first message.

        Args:
            queue: a queue of a topic.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._positions.committed(queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many messages there are from its `position` on, unwanted ones included.

        Raises:
            RocketMQError: a broker cannot be reached, does not answer, or refuses.
        """
        return await self._positions.lag()

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset. Messages pulled from the queue and not handed out yet are discarded.

        This offset then counts as the progress of the group in that queue: the next commit, of any kind, commits it.

        Args:
            queue: a queue that this consumer has.
            offset: the offset of the next message.

        Raises:
            ConfigError: an argument cannot be used.
            OffsetOutOfRangeError: the offset lies outside of the queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        await self._positions.seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that a queue still has; otherwise as `seek`.

        Args:
            queue: a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        await self._positions.seek_to_begin(queue)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message that comes to a queue; otherwise as `seek`.

        Args:
            queue: a queue that this consumer has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        await self._positions.seek_to_end(queue)

    async def seek_to_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> None:
        """Continue at the first message that was stored at a time or after it; otherwise as `seek`.

        Args:
            queue: the queue.
            timestamp: ms since 1970, or a datetime with a time zone.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        await self._positions.seek_to_timestamp(queue, timestamp)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out and pull nothing more from these queues until `resume`. They stay with this consumer.

        Args:
            queues: queues that this consumer has.

        Raises:
            ConfigError: these are not queues.
            QueueNotAssignedError: this consumer does not have one of them; none is paused.
        """
        self._positions.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue with paused queues where they are. Queues that are not paused are unaffected.

        Args:
            queues: queues that this consumer has.

        Raises:
            ConfigError: these are not queues.
        """
        self._positions.resume(queues)

    # --- looking: what does not wait may be called by any thread ----------------------------------------

    def status(self) -> LitePullConsumerStatus:
        """The current state: topics, queues, the messages held from them, and errors; closed in the child of a fork."""
        running = self._current.shown
        return LitePullConsumerStatus(
            state=self._lifecycle.shown.value,
            client_id=self.client.client_id,
            group=self.config.group,
            topics=self._selection.topics,
            balanced=running is not None and running.rebalance.is_up_to_date,
            queues=queue_statuses(running),
            errors={} if running is None else running.rebalance.problems(),
            crash=self._current.crash,
        )

    def statistics(self) -> LitePullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return statistics(self._current.check_running(), self._selection.topics)

    def _wanted_topics(self) -> Collection[str]:
        return self._selection.topics
