"""LitePullConsumer for blocking code. Any thread may use it, and several may poll: each message goes to one of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack, final

from rocketpy.client.arguments import checked_queues
from rocketpy.client.shared_client import trio_client_of
from rocketpy.consumer import LitePullConsumer as TrioConsumer
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.consumer.lite.lending import Rest, as_parts
from rocketpy.consumer.surface import ConsumerSurface
from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy.message import MessageExt
from rocketpy.sync.calls import call_in_own_loop
from rocketpy.sync.fetching import Fetching

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.config.typed import LitePullConsumerSettings
    from rocketpy.consumer.lite import LitePullConsumerStatistics, LitePullConsumerStatus
    from rocketpy.consumer.lite.cache import Part
    from rocketpy.consumer.queue_watch import QueuesFunction
    from rocketpy.message import MessageQueue
    from rocketpy.portal import Portal
    from rocketpy.remoting.network import Network
    from rocketpy.sync.client import MQClientInstance

__all__ = ["LitePullConsumer"]

P = ParamSpec("P")
R = TypeVar("R")


@final
class LitePullConsumer(Fetching[TrioConsumer]):
    """Hands out messages on demand: ``with rocketpy.sync.LitePullConsumer("billing") as consumer:``.

    Arguments and methods are those of `rocketpy.LitePullConsumer`, without `await`. ``for message in consumer`` yields
    messages one by one until another thread closes it. It fetches some ahead; any other call gives those back first.
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
        shared = trio_client_of(client, "rocketpy.sync")
        surface = ConsumerSurface(async_caller=call_in_own_loop)
        inner = TrioConsumer(group, config=config, client=shared, network=network, _surface=surface, **fields)
        super().__init__(inner, needs=client, client=inner.client)
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
    def _uses_threads(self) -> bool:
        return self._inner.config.uses_threads

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
        self._check_process()
        self._inner.subscribe(topic, tags=tags, sql=sql)

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic.

        Raises:
            ConfigError: the topic is not subscribed.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_process()
        self._inner.unsubscribe(topic)

    def assign(self, queues: Iterable[MessageQueue], *, tags: str | None = None, sql: str | None = None) -> None:
        """Consume exactly these queues. See `rocketpy.LitePullConsumer.assign`.

        Raises:
            ConfigError: an argument cannot be used, or `subscribe` was used before.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_process()
        self._inner.assign(queues, tags=tags, sql=sql)

    def on_queues_changed(self, topic: str, function: QueuesFunction) -> None:
        """Have a plain function of a topic and its queues called in a thread whenever the queues of the topic change.

        Raises:
            ConfigError: an argument cannot be used.
            ClientClosedError: it is closed, or was made before a fork.
        """
        self._check_process()
        if is_async_listener(function):
            raise ConfigError(f"{function!r:.100} is async: give a plain function here, or use rocketpy.aio")
        self._inner.on_queues_changed(topic, function)

    # --- messages -------------------------------------------------------------------------------------

    def poll(self, max_messages: int | None = None, *, timeout: float | timedelta | None = None) -> list[MessageExt]:
        """Return the next messages, as soon as there are any. See `rocketpy.LitePullConsumer.poll`.

        Raises:
            ConfigError: an argument cannot be used, or nothing is subscribed or assigned.
            NoPermissionError, RequestCodeNotSupportedError: a broker refuses lite pulls.
            ClientClosedError: the consumer is not open, or is closing.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        portal = self._ready()
        lent: list[Part] = []

        async def lend() -> None:
            lent.extend(await self._inner.outside.polling.lend(max_messages, timeout))

        try:
            portal.call(lend)
            return [message for part in lent for message in part.messages]
        except BaseException:  # Ctrl-C just as messages arrive: without this, nobody would hand them out
            if lent:
                portal.post(self._inner.outside.polling.give_back, lent)
            raise

    def __iter__(self) -> Self:
        """Iterate over messages until the consumer closes; see the class for what is committed meanwhile."""
        return self

    def __next__(self) -> MessageExt:
        """Wait for the next message; asking for it means that the previous one is done."""
        while True:
            try:
                queue, message = self._rest.popleft()
            except IndexError:
                if not self._fetch():
                    raise StopIteration from None
            else:
                if not queue.dropped:
                    return message

    def _fetch(self) -> bool:
        """Fetch more messages to iterate over. False if the consumer was closed."""

        async def lend() -> None:
            for queue, messages in await self._inner.outside.polling.lend(None, math.inf):
                self._rest.extend((queue, message) for message in messages)

        try:
            self._portal.call(lend)
        except ClientClosedError:
            if self._inner.outside.current.has_ended:
                return False
            raise
        return True

    def _ready(self) -> Portal:
        """Give back the messages that were fetched ahead. Returns the portal in which the consumer runs."""
        portal = self._portal
        back = as_parts(self._rest)
        if back:
            portal.post(self._inner.outside.polling.give_back, back)
        return portal

    def _do(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a plain function of the consumer in the portal."""

        async def call() -> R:
            return function(*args, **kwargs)

        return self._ready().call(call)

    # --- commits --------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[MessageQueue, int] | None = None, *, timeout: float | timedelta | None = None
    ) -> None:
        """Commit, and wait until the brokers have confirmed it. See `rocketpy.LitePullConsumer.commit`.

        Raises:
            ConfigError: an argument cannot be used, or the caller is `write` of its own `offset_store`.
            QueueNotAssignedError: `offsets` has a queue that this consumer does not have; nothing is committed.
            RocketMQError: a broker cannot be reached, does not answer, or refuses. The commit is repeated soon.
        """
        self._inner.outside.current.check_may_commit()
        self._ready().call(self._inner.commit, offsets, timeout=timeout)

    def commit_soon(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit, without waiting for brokers. See `rocketpy.LitePullConsumer.commit_soon`.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: `offsets` has a queue that this consumer does not have; nothing is committed.
        """
        self._do(self._inner.commit_soon, offsets)

    def ack(self, message: MessageExt) -> None:
        """Mark one message as done; does not wait for the background. See `rocketpy.LitePullConsumer.ack`.

        Raises:
            ConfigError: this is not a message.
            ClientClosedError: the consumer is not open.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"ack needs a message that this consumer handed out, not {message!r:.100}")
        portal = self._portal_to_tell
        self._inner.outside.access.check_open()
        portal.post(self._inner.outside.commits.acknowledge, message)

    # --- single queues --------------------------------------------------------------------------------

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that a poll will hand out from a queue.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
        """
        self._check_process()
        ahead = [message.queue_offset for held, message in tuple(self._rest) if held.queue == queue]
        return min([self._inner.position(queue), *ahead])

    def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue. See `rocketpy.LitePullConsumer.committed`.

        Raises:
            ConfigError: this is not a queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return self._portal.call(self._inner.committed, queue)

    def lag(self) -> dict[MessageQueue, int]:
        """For each queue of this consumer, how many messages there are from its `position` on, unwanted ones included.

        Raises:
            RocketMQError: a broker cannot be reached, does not answer, or refuses.
        """
        return self._ready().call(self._inner.lag)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset. See `rocketpy.LitePullConsumer.seek`.

        Raises:
            ConfigError: an argument cannot be used.
            OffsetOutOfRangeError: the offset lies outside of the queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready().call(self._inner.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that a queue still has.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready().call(self._inner.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message that comes to a queue.

        Raises:
            ConfigError: this is not a queue.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready().call(self._inner.seek_to_end, queue)

    def seek_to_timestamp(self, queue: MessageQueue, timestamp: int | datetime) -> None:
        """Continue at the first message stored at a time (ms since 1970, or a datetime with a time zone) or after it.

        Raises:
            ConfigError: an argument cannot be used.
            QueueNotAssignedError: this consumer does not have the queue.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        self._ready().call(self._inner.seek_to_timestamp, queue, timestamp)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Hand out and pull nothing more from these queues until `resume`. They stay with this consumer.

        Raises:
            ConfigError: these are not queues.
            QueueNotAssignedError: this consumer does not have one of them; none is paused.
        """
        self._do(self._inner.pause, checked_queues(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Continue with paused queues where they are. Queues that are not paused are unaffected.

        Raises:
            ConfigError: these are not queues.
        """
        self._do(self._inner.resume, checked_queues(queues))

    # --- looking --------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues that this consumer has now."""
        return self._inner.assignment

    def wait_assigned(self, timeout: float | timedelta | None = None) -> tuple[MessageQueue, ...]:
        """Wait until this consumer has at least one queue. See `rocketpy.LitePullConsumer.wait_assigned`.

        Raises:
            RequestTimeoutError: it took longer than `timeout` seconds.
            ClientClosedError: the consumer is not open.
            ServiceCrashedError: a bug in the background stopped the consumer.
        """
        return self._portal.call(self._inner.wait_assigned, timeout)

    def status(self) -> LitePullConsumerStatus:
        """The current state: topics, queues, the messages held from them, and errors."""
        return self._inner.status()

    def statistics(self) -> LitePullConsumerStatistics:
        """What it has done since it started.

        Raises:
            ClientClosedError: it was never started.
        """
        return self._inner.statistics()
