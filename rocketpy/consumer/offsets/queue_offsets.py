"""QueueOffsets: asks brokers for the first and last offsets of queues, and for a group's committed offsets.

Plays the part of minOffset, maxOffset and searchOffset in MQAdminImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from rocketpy.client.api import offset as offset_api
from rocketpy.consumer.offsets.one_first import one_first
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue

__all__ = ["QueueOffsets"]

T = TypeVar("T")


class QueueOffsets:
    """Asks brokers for offsets. A broker that is away for longer than `request_timeout` is an error.

    Args:
        client: how to reach brokers.
        group: the consumer group.
    """

    def __init__(self, client: MQClientInstance, group: str) -> None:
        self._client = client
        self._group = group

    async def beginning(self, queue: MessageQueue) -> int:
        """The offset of the oldest message that a queue still has.

        Raises:
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await offset_api.min_offset(self._client.pool, await self.master(queue), queue, timeout=self._timeout)

    async def end(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will get.

        Raises:
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        return await offset_api.max_offset(self._client.pool, await self.master(queue), queue, timeout=self._timeout)

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The offsets of the oldest and the next message, asked for at the same time.

        Raises:
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        found: dict[bool, int] = {}
        failures: list[RocketMQError] = []

        async def ask(end: bool) -> None:
            try:
                found[end] = await (self.end(queue) if end else self.beginning(queue))
            except RocketMQError as error:
                failures.append(error)

        await side_by_side(ask, (False, True))
        if failures:
            raise failures[0]
        return found[False], found[True]

    async def at(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message that was stored at a time (ms since 1970) or after it.

        Raises:
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        address = await self.master(queue)
        return await offset_api.search_offset(self._client.pool, address, queue, timestamp, timeout=self._timeout)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue, None if there is none. Brokers of 4.x may answer 0 then.

        Raises:
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        address = await self.master(queue)
        return await offset_api.query_consumer_offset(
            self._client.pool, address, self._group, queue, set_zero_if_not_found=False, timeout=self._timeout
        )

    async def of_each(
        self, ask: Callable[[MessageQueue], Awaitable[T]], queues: Iterable[MessageQueue], *, commits: bool = False
    ) -> dict[MessageQueue, T]:
        """Call one of the other methods for many queues at the same time.

        Args:
            ask: what to call.
            queues: the queues.
            commits: whether it commits; then one queue of each topic at a broker goes first (see `one_first`).

        Returns:
            The results by queue, sorted.

        Raises:
            RocketMQError: a call failed; if several did, the error of the first queue in sorted order.
        """
        found: dict[MessageQueue, T] = {}
        failures: dict[MessageQueue, RocketMQError] = {}

        async def answer(queue: MessageQueue) -> None:
            try:
                found[queue] = await ask(queue)
            except RocketMQError as error:
                failures[queue] = error

        await (one_first if commits else side_by_side)(answer, queues)
        if failures:
            raise failures[min(failures)]
        return {queue: found[queue] for queue in sorted(found)}

    @property
    def _timeout(self) -> float:
        return self._client.config.request_timeout

    async def master(self, queue: MessageQueue) -> str:
        """The address of the master that holds a queue.

        Raises:
            RouteNotFoundError: the topic or its broker cannot be found, or it has no master now.
        """
        routes = self._client.routes
        address = routes.broker_address(routes.broker_name(queue))
        if address is None:
            await routes.refresh(queue.topic)
            await routes.ensure_subscribe(queue.topic)
            address = routes.broker_address(routes.broker_name(queue))
        if address is None:
            raise BrokerUnreachableError(
                f"the broker {queue.broker_name} of {queue} has no master now, and only the master knows its offsets: "
                "start it",
                topic=queue.topic,
            )
        return address
