"""What a source asks about queues, for the blocking code that plans reads: which there are, and how far they reach.

Requests are made again as `rocketpy.spark.source.retrying` says. All queues are asked at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rocketpy.client.api import offset as offset_api
from rocketpy.client.homes import home_of
from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.errors import RocketMQError, SubscriptionGroupNotExistError
from rocketpy.spark.source.retrying import retried
from rocketpy.spark.source.topics import chosen_queues

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.offsets import Offsets
    from rocketpy.spark.source.options import SourceOptions

__all__ = ["Brokers"]

T = TypeVar("T")


class Brokers:
    """Asks on behalf of one read. Any thread may use it.

    Args:
        client: an open client, of the trio surface, that lives in the portal.
        options: what to read, and how patient to be.
    """

    def __init__(self, client: MQClientInstance, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._home = home_of(client)
        self._offsets = QueueOffsets(client, options.group)

    def queues(self, *, patient: bool = True) -> tuple[MessageQueue, ...]:
        """The queues to read that there are now, sorted.

        Args:
            patient: whether to ask again when the name servers do not answer.

        Raises:
            ConfigError: an assigned queue does not exist.
            RocketMQError: a topic cannot be found, or the name servers do not answer.
        """

        async def ask() -> tuple[MessageQueue, ...]:
            return await chosen_queues(self._client, self._options.choice)

        if not patient:
            return self._home.call(ask)
        return self._home.call(retried, ask, self._options, doing="looking for the queues to read")

    def know(self, topic: str) -> bool:
        """Whether the name servers know a topic now: a route that was kept from before does not count.

        Raises:
            RocketMQError: the name servers do not answer.
        """
        return self._home.call(self._client.routes.refresh_existing, topic) is not None

    def names(self, topic: str) -> frozenset[str]:
        """The names of the brokers that have queues of a topic to read now; none if the name servers do not know it.

        Raises:
            RocketMQError: the name servers do not answer.
        """

        async def ask() -> frozenset[str]:
            route = await self._client.routes.refresh_existing(topic)
            return frozenset() if route is None else frozenset(queue.broker_name for queue in route.subscribe)

        return self._home.call(retried, ask, self._options, doing=f"looking for the brokers of {topic}")

    def bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, tuple[int, int]]:
        """The offsets of the oldest and of the next message of each queue.

        Raises:
            RocketMQError: a broker does not answer.
        """
        return self._of_each(self._offsets.bounds, queues, "asking how far queues reach")

    def beginnings(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset of the oldest message of each queue.

        Raises:
            RocketMQError: a broker does not answer.
        """
        return self._of_each(self._offsets.beginning, queues, "asking where queues begin")

    def ends(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The offset of the next message of each queue.

        Raises:
            RocketMQError: a broker does not answer.
        """
        return self._of_each(self._offsets.end, queues, "asking where queues end")

    def at_times(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The offset of the first message of each queue that was stored at a time (ms since 1970) or after it.

        Raises:
            RocketMQError: a broker does not answer.
        """

        async def at(queue: MessageQueue) -> int:
            return await self._offsets.at(queue, times[queue])

        return self._of_each(at, times, "searching queues by time")

    def committed(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The committed offset of the group in each queue; None where there is none.

        Raises:
            RocketMQError: a broker does not answer.
        """
        return self._of_each(self._offsets.committed, queues, "asking for committed offsets")

    def commit(self, group: str, offsets: Offsets) -> Offsets:
        """Commit offsets of a group, and try again when a broker does not answer. Returns those that are committed.

        A broker knows the group once something was pulled from it, and until then it takes no offsets of the group. Nor
        does it after a reset of the group, until something is pulled from the queue.

        Args:
            group: the group.
            offsets: by queue, each that of the next message to read.

        Raises:
            RocketMQError: a broker does not answer, or refuses.
        """
        done: Offsets = {}
        self._of_each(self._teller(group, offsets, done), offsets, f"committing offsets of {group}", commits=True)
        return done

    def commit_some(
        self, group: str, offsets: Offsets
    ) -> tuple[Offsets, dict[MessageQueue, RocketMQError], list[MessageQueue]]:
        """Commit offsets of a group where that is possible now.

        Returns those that are committed, what failed, and the queues whose brokers have ignored it, because the group
        was reset.

        Args:
            group: the group.
            offsets: by queue, each that of the next message to read.
        """
        done: Offsets = {}
        failures: dict[MessageQueue, RocketMQError] = {}
        ignored: list[MessageQueue] = []
        tell = self._teller(group, offsets, done)

        async def attempt(queue: MessageQueue) -> None:
            try:
                if not await tell(queue):
                    ignored.append(queue)
            except RocketMQError as error:
                failures[queue] = error

        self._home.call(partial(self._offsets.of_each, commits=True), attempt, list(offsets))
        return done, failures, sorted(ignored)

    def _teller(self, group: str, offsets: Offsets, done: Offsets) -> Callable[[MessageQueue], Awaitable[bool]]:
        """What commits the offset of a queue, and notes it in `done` unless the broker does not know the group.

        It returns False, and notes nothing, if the broker has ignored the commit, because the group was reset.
        """
        client = self._client

        async def tell(queue: MessageQueue) -> bool:
            address = await self._offsets.master(queue)
            offset, timeout = offsets[queue], client.config.request_timeout
            with suppress(SubscriptionGroupNotExistError):
                if not await offset_api.update_consumer_offset(
                    client.pool, address, group, queue, offset, wait=True, timeout=timeout
                ):
                    return False
                done[queue] = offset
            return True

        return tell

    def _of_each(
        self,
        ask: Callable[[MessageQueue], Awaitable[T]],
        queues: Iterable[MessageQueue],
        doing: str,
        *,
        commits: bool = False,
    ) -> dict[MessageQueue, T]:
        wanted = sorted(queues)

        async def ask_all() -> dict[MessageQueue, T]:
            return await self._offsets.of_each(ask, wanted, commits=commits)

        topics = sorted({queue.topic for queue in wanted})
        if not wanted:
            return {}
        return self._home.call(retried, ask_all, self._options, doing=doing, client=self._client, topics=topics)
