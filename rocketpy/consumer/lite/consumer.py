"""LitePullConsumer: messages are pulled ahead in the background and handed out when somebody asks, on trio.

What happens while it runs is the business of `running.RunningLitePull`. Plays the part of DefaultLitePullConsumer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, final

import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.lifecycle import State
from rocketpy.config import LitePullConsumerConfig
from rocketpy.consumer.arguments import checked_count, checked_offset, checked_queue, checked_seconds
from rocketpy.consumer.lite.positions import Positions
from rocketpy.consumer.lite.running import RunningLitePull
from rocketpy.consumer.lite.status import (
    LitePullConsumerStatistics,
    LitePullConsumerStatus,
    queue_statuses,
    statistics,
)
from rocketpy.consumer.lite.wanted import Wishes
from rocketpy.consumer.queue_watch import QueuesFunction, QueueWatch
from rocketpy.consumer.start_checks import check_filters, check_name_servers, wait_shared_out
from rocketpy.consumer.user_calls import AsyncCaller, UserCalls, call_in_this_loop
from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.wire.bodies.heartbeat import ConsumerData
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from rocketpy.client.roles import Driven
    from rocketpy.consumer.lite.cache import Part
    from rocketpy.consumer.pull import QueuePuller
    from rocketpy.remoting.network import Network

__all__ = ["MOST_MESSAGES", "LitePullConsumer"]

logger = get_logger(__name__)

MOST_MESSAGES = 1_000_000
"""What one poll may ask for."""


@final
class LitePullConsumer(Positions):
    """Hands out messages when it is asked: ``async with rocketpy.LitePullConsumer("billing") as consumer:``.

    It either shares the queues of topics with its group (`subscribe`) or has queues of its own choice (`assign`), pulls
    ahead from all of them, and hands out what it has: with `poll`, or one by one with ``async for message in
    consumer``. Messages of a queue come in order. Its methods may be used by any task of its trio loop; when several
    tasks poll, each message goes to one of them.

    How far the group has got is committed in one of three ways:

    * By itself (`auto_commit`): who polls again says that everything handed out before is dealt with, and every
      `auto_commit_interval` that is committed. What the last poll has handed out is never committed so, not even when
      the consumer closes; a program that ends, or dies, before it polls again gets those messages again.
    * By `commit` or `commit_soon`: everything handed out so far is dealt with.
    * By `ack`, message by message. From the first one on, in whatever way it is committed, nothing is committed from
      the lowest message on that was handed out and not acknowledged. This is the way where several tasks work on what
      they have polled, together with ``auto_commit=True``, or with `commit`.

    Args:
        group: name that the consumers of one purpose share.
        config: the settings; `group` and `fields` count over them.
        client: a client to share; without it the consumer has one of its own.
        network: where connections come from, for a client of its own.
        async_caller: calls async functions of the user's; for surfaces that have a place of their own for them.
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
        **fields: Any,
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        self._made_with["async_caller"] = async_caller
        if group is not None:
            fields["group"] = group
        base = config if config is not None or not isinstance(client, MQClientInstance) else client.config
        self.config = LitePullConsumerConfig.of(base, **fields)
        super().__init__(self.config, client, network)
        self._wishes = Wishes(self._wishes_changed)
        self._watch = QueueWatch()
        self._async_caller = async_caller
        self._seldom = Seldom(logger)

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<LitePullConsumer {self.config.group} {self._lifecycle.state.value}>"

    def _make_again(self, *, crossed_fork: bool) -> None:
        wishes, watch = self._wishes, self._watch
        super()._make_again(crossed_fork=crossed_fork)
        self._wishes.adopt(wishes)
        self._watch.adopt(watch)

    def adopt(self, former: LitePullConsumer) -> None:
        """For other surfaces: want and watch what the consumer did that this one replaces."""
        self._wishes.adopt(former._wishes)
        self._watch.adopt(former._watch)

    # --- life -----------------------------------------------------------------------------------------

    async def _open(self, stack: AsyncExitStack) -> None:
        """Returns when the queues have been taken for the first time, or after `start_timeout`."""
        deadline = trio.current_time() + self.config.start_timeout
        running = RunningLitePull(self.client, self.config, self._wishes, UserCalls(self._async_caller))
        await running.open(stack, self.config.close_timeout)
        await self._run_background(stack, running)
        await check_name_servers(self.client, self.topics(), deadline)
        await check_filters(running.rebalance.filters, deadline)
        self.client.register_consumer(self.config.group, self)
        self._running = running
        running.start_services()
        running.start_service(self._watch_queues)
        await wait_shared_out(running.rebalance, self.config, deadline)

    async def _watch_queues(self) -> None:
        await self._watch.run(self.client.routes, self._check_running().calls)

    def _check_usable(self) -> RunningLitePull:
        """What runs; refuse to use what has crashed, is not open, or belongs to another loop."""
        self._check_crash()
        self.check_open()
        self._lifecycle.check_loop()
        running = self._check_running()
        self.client.check_open()
        return running

    def check_open(self) -> None:
        """Refuse use while it is not open. For any thread.

        It is open while `on_assigned` or `on_revoked` is called, also when it starts or closes at that moment.

        Raises:
            ClientClosedError: it is not open, or was opened before a fork.
        """
        running = self._running
        if running is None or not running.hooks.under_way or self._lifecycle.crossed_fork:
            self._lifecycle.check_open()

    @property
    def in_hook(self) -> bool:
        """Whether this is called by a function of the user's for which closing waits."""
        return self._running is not None and self._running.calls.is_inside

    def _find(self, queue: MessageQueue) -> QueuePuller | None:
        return None if self._running is None else self._running.assignment.get(queue)

    # --- what it consumes -----------------------------------------------------------------------------

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Have the group share out the queues of a topic, before the start or after it.

        Args:
            topic: the topic.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as SQL92 over their properties; brokers must be set up for it.

        Raises:
            ConfigError: one of these cannot be used, or `assign` was used before.
            ClientClosedError: the consumer is closed.
        """
        self._check_not_closed()
        self._wishes.subscribe(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Get no more messages of a topic.

        Raises:
            ConfigError: it is not subscribed.
        """
        self._wishes.unsubscribe(topic)

    def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None, sql: str | None = None) -> None:
        """Have these queues and no others, whatever other members of the group have; before the start or after it.

        Queues that it has already go on where they are. One that is given twice is taken once.

        Args:
            queues: such as `fetch_message_queues` gives.
            tags: which messages, such as "created || paid"; all when None.
            sql: which messages, as SQL92 over their properties; brokers must be set up for it.

        Raises:
            ConfigError: one of these cannot be used, there is no queue, or `subscribe` was used before.
            ClientClosedError: the consumer is closed.
        """
        self._check_not_closed()
        self._wishes.assign(queues, tags, sql)

    def _check_not_closed(self) -> None:
        if self._lifecycle.state is State.CLOSED and not self._lifecycle.crossed_fork:
            self._lifecycle.check_open()

    def on_queues_changed(self, topic: str, function: QueuesFunction) -> None:
        """Have a function called with a topic and its queues whenever these have become others.

        An async function is awaited in the loop, a plain one is called in a thread. There is one for each topic.

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

    async def poll(self, max_messages: int | None = None, *, timeout: float | None = None) -> list[MessageExt]:
        """The next messages, as soon as there are any; an empty list when there are none in time.

        A task that is cancelled here has lost nothing: the messages go to the next poll.

        Args:
            max_messages: how many at most; left out, `pull_batch_size`.
            timeout: seconds to wait for the first one; left out, `poll_timeout`. With 0 it gives what is there.

        Raises:
            ConfigError: an argument cannot be used, or nothing is subscribed or assigned.
            NoPermissionError, RequestCodeNotSupportedError: a broker gives nothing to lite pull consumers.
            ClientClosedError: the consumer is not open, or closes.
            ServiceCrashedError: a bug in the background ended it.
        """
        return [message for part in await self.lend(max_messages, timeout) for message in part.messages]

    async def lend(self, max_messages: int | None, timeout: float | None) -> list[Part]:
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
                    self._check_hopeful(running)
                    await running.cache.arrival.wait()
                    parts = running.cache.take(most)
        return parts

    def give_back(self, parts: Iterable[Part]) -> None:
        """For other surfaces: these were lent and have reached nobody; they are handed out next."""
        if self._running is not None:
            self._running.cache.give_back(parts)

    def _check_hopeful(self, running: RunningLitePull) -> None:
        """Refuse to wait for what cannot come."""
        if running.closing and self._crash is None:
            self._lifecycle.check_open()
            self.client.check_open()
        self._check_usable()
        if not self._wishes.topics:
            raise ConfigError("nothing is subscribed or assigned: call subscribe(topic) or assign(queues) first")
        running.cache.check_refused()

    def __aiter__(self) -> Self:
        """Messages one by one, until the consumer closes; see the class for what is committed meanwhile."""
        return self

    async def __anext__(self) -> MessageExt:
        """Wait for the next message; asking for it says that the one before is dealt with."""
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

    # --- how far the group is -------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None, *, timeout: float | None = None) -> None:
        """Commit, and wait until the brokers have it.

        Everything handed out so far is committed, of all queues that are ours; where messages are acknowledged, as far
        as that goes without a gap. A queue that another member has got meanwhile is left out: that member gets again
        what was not committed before.

        Args:
            offsets: to commit these, and nothing else: for each queue the offset that comes next. One that lies behind
                everything that was pulled is committed as it is, with a warning.
            timeout: seconds to wait; left out, `request_timeout`.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: one of `offsets` is for a queue that is not ours; nothing is committed then.
            RequestTimeoutError: a broker has not answered in time. It will be told once more.
            RocketMQError: a broker cannot be reached, or refuses. It will be told once more.
        """
        running = self._check_usable()
        budget = self.client.config.request_timeout if timeout is None else checked_seconds("timeout", timeout)
        wanted = self._settle(running, offsets)
        with trio.move_on_after(budget) as waiting:
            await running.offsets.commit(wanted)
        if waiting.cancelled_caught:
            raise RequestTimeoutError(
                f"not every broker has answered within {budget:g} s that the offsets of {self.config.group} are "
                "committed; they are told again soon",
                timeout=budget,
            )

    def commit_soon(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit, without waiting; what fails is logged, and repeated at the next interval.

        Args:
            offsets: as for `commit`.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: one of `offsets` is for a queue that is not ours; nothing is committed then.
        """
        running = self._check_usable()
        running.commit_soon(tuple(self._settle(running, offsets)))

    def _settle(
        self, running: RunningLitePull, offsets: Mapping[MessageQueue, int] | None
    ) -> Mapping[MessageQueue, int]:
        """What to commit; it is noted."""
        if offsets is None:
            return running.cache.settle()
        if not isinstance(offsets, Mapping):
            raise ConfigError(f"offsets must be a dict of queues and offsets, not {offsets!r:.100}")
        wanted = {checked_queue(queue): checked_offset(offset) for queue, offset in offsets.items()}
        pullers = {queue: self._puller(queue) for queue in wanted}
        for queue, offset in wanted.items():
            pulled = pullers[queue].process_queue.position
            if offset > pulled:
                self._seldom.warning(
                    ("ahead", queue),
                    "offset %d of %s is committed, and it was pulled up to %d: what lies between comes to nobody; seek "
                    "to pass over messages",
                    offset,
                    queue,
                    pulled,
                )
            running.offsets.note(queue, offset)
        return wanted

    def ack(self, message: MessageExt) -> None:
        """One message is dealt with. It is committed when everything before it in its queue is acknowledged as well.

        This does not commit by itself: `auto_commit` does, or `commit`. Of a queue that another member has got
        meanwhile it changes nothing; that is logged.

        Raises:
            ConfigError: this is no message.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"what is acknowledged must be a message that was handed out, not {message!r:.100}")
        self._check_usable()
        self.acknowledge(message)

    def acknowledge(self, message: MessageExt) -> None:
        """For other surfaces: as `ack`, for a message; what is closed by now is not told."""
        running = self._running
        if running is None or (running.closing and not running.hooks.under_way):
            return
        if not running.cache.acknowledge(message.queue, message.queue_offset):
            self._seldom.warning(
                message.queue,
                "offset %d of %s is acknowledged in vain: it was not handed out, was acknowledged before, or the queue "
                "is not ours any more",
                message.queue_offset,
                message.queue,
            )

    # --- looking: what does not wait may be called by any thread ----------------------------------------

    @property
    def _group(self) -> str:
        return self.config.group

    def status(self) -> LitePullConsumerStatus:
        """How it is: topics, queues, what is held of them, and what goes wrong."""
        running = self._running
        return LitePullConsumerStatus(
            state=self._lifecycle.state.value,
            client_id=self.client.client_id,
            group=self.config.group,
            topics=self._wishes.topics,
            balanced=running is not None and running.rebalance.balanced,
            queues=queue_statuses(running),
            errors={} if running is None else running.rebalance.errors | running.rebalance.filters.refused,
            crash=self._crash,
        )

    def statistics(self) -> LitePullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return statistics(self._check_running(), self._wishes.topics)

    # --- what the client asks of a consumer -------------------------------------------------------------

    def consumer_data(self) -> ConsumerData:
        """What brokers shall know."""
        return ConsumerData(
            group_name=self.config.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=self.config.message_model,
            consume_from_where=self.config.consume_from_where,
            subscription_data_set=self._wishes.data(),
        )

    def topics(self) -> tuple[str, ...]:
        """Topics whose routes must be kept fresh."""
        return tuple(dict.fromkeys((*self._wishes.topics, *self._watch.topics)))

    @property
    def driven(self) -> Driven | None:
        """Carries out what brokers ask; None while it does not run."""
        return None if self._running is None else self._running.driven

    def on_route_changed(self, topic: str) -> None:
        """The route of a topic is another one now."""
        self._watch.look()
        super().on_route_changed(topic)

    def _wanted_topics(self) -> Collection[str]:
        return self._wishes.topics
