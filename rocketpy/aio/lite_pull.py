"""LitePullConsumer for asyncio. Several tasks of its loop may poll: each message goes to one of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, final

from rocketpy.aio.bridge import Bridge
from rocketpy.aio.calls import LoopCaller
from rocketpy.aio.fetching import Fetching
from rocketpy.client.arguments import checked_queues
from rocketpy.client.shared_client import trio_client_of
from rocketpy.consumer import LitePullConsumer as TrioConsumer
from rocketpy.consumer.lite.lending import Rest, as_parts
from rocketpy.consumer.surface import ConsumerSurface
from rocketpy.errors import ClientClosedError, ConfigError, QueueNotAssignedError, ServiceCrashedError
from rocketpy.logs import get_logger
from rocketpy.message import MessageExt

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rocketpy.aio.client import MQClientInstance
    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.config.typed import LitePullConsumerSettings
    from rocketpy.consumer.lite import LitePullConsumerStatistics, LitePullConsumerStatus
    from rocketpy.consumer.lite.cache import Part
    from rocketpy.consumer.queue_watch import QueuesFunction
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.network import Network

__all__ = ["LitePullConsumer"]

logger = get_logger(__name__)

T = TypeVar("T")


@final
class LitePullConsumer(Fetching[TrioConsumer]):
    """Hands out messages on demand: ``async with rocketpy.aio.LitePullConsumer("billing") as consumer:``.

    Arguments and methods are those of `rocketpy.LitePullConsumer`. ``async for message in consumer`` gives messages one
    by one until another task closes it; it fetches some in advance, which any other call gives back first.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        config: LitePullConsumerConfig | None = None,
        client: MQClientInstance | None = None,
        network: Network | None = None,
        **fields: Unpack[LitePullConsumerSettings],
    ) -> None:
        self._made_with = {"group": group, "config": config, "client": client, "network": network, **fields}
        bridge = Bridge("consumer")
        inner = TrioConsumer(
            group,
            config=config,
            client=trio_client_of(client, "rocketpy.aio"),
            network=network,
            _surface=ConsumerSurface(async_caller=LoopCaller(bridge)),
            **fields,
        )
        bridge.what = f"consumer {inner.config.group}"
        bridge.client = inner.client
        super().__init__(inner, bridge, needs=client)
        self._rest: Rest = deque()

    @property
    def config(self) -> LitePullConsumerConfig:
        """The settings."""
        return self._inner.config

    def _make_again(self, *, crossed_fork: bool) -> None:
        former = self._inner
        super()._make_again(crossed_fork=crossed_fork)
        self._inner.outside.adopt(former)

    @property
    def _is_waited_for(self) -> bool:
        return self._inner.outside.is_waited_for

    # --- subscriptions --------------------------------------------------------------------------------

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Consume a topic whose queues the group shares. See `rocketpy.LitePullConsumer.subscribe`.

        Raises:
            ConfigError: an argument cannot be used, or `assign` was used before.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_home()
        self._inner.subscribe(topic, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic.

        Raises:
            ConfigError: the topic is not subscribed.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_home()
        self._inner.unsubscribe(topic)

    def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None, sql: str | None = None) -> None:
        """Consume exactly these queues. See `rocketpy.LitePullConsumer.assign`.

        Raises:
            ConfigError: an argument cannot be used, or `subscribe` was used before.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_home()
        self._inner.assign(queues, tags=tags, sql=sql)

    def on_queues_changed(self, topic: str, function: QueuesFunction) -> None:
        """Have a function called with a topic and its queues whenever the queues of the topic change.

        An async function is called in the loop, a plain one in a thread. See
        `rocketpy.LitePullConsumer.on_queues_changed`.

        Raises:
            ConfigError: an argument cannot be used.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_home()
        self._inner.on_queues_changed(topic, function)

    def _check_home(self) -> None:
        """Refuse changes from outside the consumer's loop, once it has one."""
        if self._bridge.is_bound:
            self._bridge.check()

    # --- messages -------------------------------------------------------------------------------------

    async def poll(
        self, max_messages: int | None = None, *, timeout: float | timedelta | None = None
    ) -> list[MessageExt]:
        """Return the next messages, as soon as there are any. See `rocketpy.LitePullConsumer.poll`.

        Raises:
            ConfigError: an argument cannot be used, or nothing is subscribed or assigned.
            NoPermissionError, RequestCodeNotSupportedError: a broker refuses lite pulls.
            ClientClosedError: the consumer is not open, or is closing.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        lent: list[Part] = []

        async def lend() -> None:
            lent.extend(await self._inner.outside.polling.lend(max_messages, timeout))

        self._ready()
        try:
            await self._call(lend)
        except BaseException:  # cancelled just as messages arrive: without this, nobody would hand them out
            if lent:
                self._bridge.portal.post(self._inner.outside.polling.give_back, lent)
            raise
        return [message for part in lent for message in part.messages]

    def __aiter__(self) -> Self:
        """Iterate over messages until the consumer closes; see the class for what is committed meanwhile."""
        return self

    async def __anext__(self) -> MessageExt:
        """Wait for the next message; asking for it means that the previous one is done."""
        self._bridge.check()
        while True:
            while self._rest:
                queue, message = self._rest.popleft()
                if not queue.dropped:
                    return message
            if not await self._fetch():
                raise StopAsyncIteration

    async def _fetch(self) -> bool:
        """Fetch more messages to iterate over. False if the consumer was closed."""

        async def lend() -> None:
            for queue, messages in await self._inner.outside.polling.lend(None, math.inf):
                self._rest.extend((queue, message) for message in messages)

        try:
            await self._call(lend)
        except ClientClosedError:
            if self._inner.outside.current.has_ended:
                return False
            raise
        return True

    def _ready(self) -> None:
        """Give back the messages that were fetched ahead."""
        self._bridge.check()
        back = as_parts(self._rest)
        if back:
            self._bridge.portal.post(self._inner.outside.polling.give_back, back)

    def _post(self, function: Callable[[T], None], what: T) -> None:
        """Call a plain function of the consumer soon in the portal, with an argument that was checked here."""

        def call() -> None:
            try:
                function(what)
            except (ClientClosedError, QueueNotAssignedError, ServiceCrashedError) as exc:
                logger.warning("%s was called too late, and had no effect: %s", function.__name__, exc)

        self._inner.outside.current.check_crash()
        self._inner.outside.access.check_open()
        self._ready()
        self._bridge.portal.post(call)

    # --- commits --------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | None = None, *, timeout: float | timedelta | None = None
    ) -> None:
        """Commit, and wait until the brokers have confirmed it. See `rocketpy.LitePullConsumer.commit`.

        Raises:
            ConfigError: an argument cannot be used, or the caller is `write` of its own `offset_store`.
            QueueNotAssignedError: `offsets` has a queue that this consumer does not have; nothing is committed.
            RocketMQError: a broker cannot be reached, does not answer, or refuses. The commit is repeated soon.
        """
        self._inner.outside.current.check_may_commit()
        self._ready()
        await self._call(self._inner.commit, offsets, timeout=timeout)

    def commit_soon(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit, without waiting for brokers. See `rocketpy.LitePullConsumer.commit_soon`.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: `offsets` has a queue that this consumer does not have; nothing is committed.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        self._bridge.check()
        self._post(self._inner.commit_soon, self._inner.outside.commits.check_offsets(offsets))

    def ack(self, message: MessageExt) -> None:
        """Mark one message as done; does not wait for the background. See `rocketpy.LitePullConsumer.ack`.

        Raises:
            ConfigError: this is not a message.
            ClientClosedError: the consumer is not open.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"ack needs a message that this consumer handed out, not {message!r:.100}")
        self._bridge.check()
        self._inner.outside.access.check_open()
        self._bridge.portal.post(self._inner.outside.commits.acknowledge, message)

    # --- single queues --------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that a poll will hand out from a queue.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
        """
        self._check_home()
        ahead = [message.queue_offset for held, message in tuple(self._rest) if held.queue == queue]
        return min([self._inner.position(queue), *ahead])

    async def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue. See `rocketpy.LitePullConsumer.committed`.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await self._call(self._inner.committed, queue)

    async def lag(self) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many messages there are from its `position` on, unwanted ones included.

        Raises:
            RocketMQError: a broker cannot be reached, does not answer, or refuses.
        """
        self._ready()
        return await self._call(self._inner.lag)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset. See `rocketpy.LitePullConsumer.seek`.

        Raises:
            ConfigError: an argument cannot be used.
            OffsetOutOfRangeError: the offset lies outside of the queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready()
        await self._call(self._inner.seek, queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that a queue still has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready()
        await self._call(self._inner.seek_to_begin, queue)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message that comes to a queue.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready()
        await self._call(self._inner.seek_to_end, queue)

    async def seek_to_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> None:
        """Continue at the first message stored at a time (ms since 1970, or a datetime with a time zone) or after it.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready()
        await self._call(self._inner.seek_to_timestamp, queue, timestamp)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out and pull nothing more from these queues until `resume`. They stay with this consumer.

        Raises:
            ConfigError: these are not queues.
            QueueNotAssignedError: this consumer does not have one of them; none is paused.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        self._bridge.check()
        self._post(self._inner.pause, self._inner.outside.access.check_assigned(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue with paused queues where they are. Queues that are not paused are unaffected.

        Raises:
            ConfigError: these are not queues.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        self._bridge.check()
        self._post(self._inner.resume, checked_queues(queues))

    # --- looking --------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has now."""
        return self._inner.assignment

    async def wait_assigned(self, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """Wait until this consumer has at least one queue. See `rocketpy.LitePullConsumer.wait_assigned`.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        return await self._call(self._inner.wait_assigned, timeout)

    def status(self) -> LitePullConsumerStatus:
        """The current state: topics, queues, the messages held from them, and errors."""
        return self._inner.status()

    def statistics(self) -> LitePullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return self._inner.statistics()
