"""How far a group has consumed: kept in memory, committed now and then, asked for when a queue is assigned.

Plays the part of OffsetStore and RemoteBrokerOffsetStore.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

import trio

from rocketpy.client.api import offset as offset_api
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue

__all__ = ["OffsetStore", "RemoteBrokerOffsetStore"]

logger = get_logger(__name__)


class OffsetStore(Protocol):
    """Where offsets are kept. An offset is the next one to consume.

    Attributes:
        at_brokers: whether brokers keep them, so that pulls may commit as well.
    """

    at_brokers: bool

    async def open(self) -> None:
        """Get ready, before anything else is asked for.

        Raises:
            OffsetStoreError: the store cannot be used.
        """
        ...

    async def close(self) -> None:
        """Let go of what `open` took."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Note in memory how far a queue is consumed."""
        ...

    def memory(self, queue: MessageQueue) -> int | None:
        """What is noted in memory, None when nothing is."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """What the store has, which is noted in memory too; None when it has nothing.

        Raises:
            RocketMQError: the store could not be asked. That is not the same as having nothing.
        """
        ...

    async def committed(self, queue: MessageQueue) -> int | None:
        """What the store has, without noting it; None when it has nothing.

        Raises:
            RocketMQError: the store could not be asked.
        """
        ...

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these queues, without waiting for the store. Errors are logged."""
        ...

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these queues, until the store has it.

        Raises:
            RocketMQError: that of the first queue, in order, that is not committed. The others are, or are tried.
        """
        ...

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit what is noted for these queues, until the store has it. Returns the queues for which it has not."""
        ...

    def remove(self, queue: MessageQueue) -> None:
        """Forget what is noted in memory."""
        ...


class RemoteBrokerOffsetStore:
    """Offsets at the broker that holds the queue: what the members of a group share.

    Args:
        client: how to reach brokers.
        group: whose offsets.
    """

    at_brokers = True

    def __init__(self, client: MQClientInstance, group: str) -> None:
        self._client = client
        self._group = group
        self._offsets: dict[MessageQueue, int] = {}
        self._failing: set[str] = set()
        self._seldom = Seldom(logger, clock=trio.current_time)

    async def open(self) -> None:
        """Brokers are there or not; that is found out queue by queue."""

    async def close(self) -> None:
        """Nothing was taken."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Note in memory how far a queue is consumed; with `increase_only` a lower offset is ignored."""
        if increase_only:
            known = self._offsets.get(queue)
            if known is not None and known >= offset:
                return
        self._offsets[queue] = offset

    def memory(self, queue: MessageQueue) -> int | None:
        """What is noted in memory, None when nothing is."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget what is noted in memory."""
        self._offsets.pop(queue, None)

    async def read(self, queue: MessageQueue) -> int | None:
        """Ask the broker. A group that is new on a queue which begins at 0 hears 0, not None.

        Raises:
            RocketMQError: the broker cannot be reached, or refuses.
        """
        offset = await self.committed(queue)
        if offset is not None:
            self.update(queue, offset)
        return offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """Ask the broker, and note nothing.

        Raises:
            RocketMQError: the broker cannot be reached, or refuses.
        """
        address = await self._address(queue)
        return await offset_api.query_consumer_offset(
            self._client.pool, address, self._group, queue, timeout=self._client.config.request_timeout
        )

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these queues, all at the same time. Errors are logged: the next commit repeats it.

        Unchanged offsets are committed again: a broker that lost its table in a crash has them back at once.
        """
        await self._commit_each(queues, wait=False)

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these queues and wait for the answers, for all at the same time.

        Raises:
            RocketMQError: that of the first queue, in order, that is not committed. The others are, or are tried.
        """
        noted = {queue: self._offsets[queue] for queue in queues if queue in self._offsets}
        failures: dict[MessageQueue, RocketMQError] = {}

        async def tell(queue: MessageQueue) -> None:
            try:
                await self.tell(queue, noted[queue], wait=True)
            except RocketMQError as error:
                failures[queue] = error

        await side_by_side(tell, sorted(noted))
        if failures:
            raise failures[min(failures)]

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit what is noted for these queues and wait for the answers. Returns what is not committed in time."""
        committed: set[MessageQueue] = set()
        with trio.move_on_at(deadline):
            await self._commit_each(queues, wait=True, committed=committed)
        return [queue for queue in queues if queue in self._offsets and queue not in committed]

    async def _commit_each(
        self, queues: Collection[MessageQueue], *, wait: bool, committed: set[MessageQueue] | None = None
    ) -> None:
        async with trio.open_nursery() as nursery:
            for queue in queues:
                offset = self._offsets.get(queue)
                if offset is not None:
                    nursery.start_soon(self._commit, queue, offset, wait, committed)

    async def _commit(self, queue: MessageQueue, offset: int, wait: bool, committed: set[MessageQueue] | None) -> None:
        try:
            await self.tell(queue, offset, wait=wait)
        except RocketMQError as error:
            # Once a change of state, not once a commit: a broker may be away for hours.
            if queue.broker_name not in self._failing:
                self._seldom.warning(
                    queue.broker_name,
                    "offset %d of %s in %s is not committed yet: %s",
                    offset,
                    self._group,
                    queue,
                    error,
                )
            self._failing.add(queue.broker_name)
        else:
            self._failing.discard(queue.broker_name)
            if committed is not None:
                committed.add(queue)

    async def tell(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Commit an offset, once.

        Raises:
            RocketMQError: the broker cannot be reached; with `wait`, also when it does not answer, or refuses.
        """
        await offset_api.update_consumer_offset(
            self._client.pool,
            await self._address(queue),
            self._group,
            queue,
            offset,
            wait=wait,
            timeout=self._client.config.request_timeout,
        )

    async def _address(self, queue: MessageQueue) -> str:
        """The master that holds the queue, or another broker of its name while there is none."""
        routes = self._client.routes
        broker = routes.find_broker(routes.broker_name(queue))
        if broker is None:
            await routes.refresh(queue.topic)
            broker = routes.find_broker(routes.broker_name(queue))
        if broker is None:
            raise BrokerUnreachableError(
                f"the broker {queue.broker_name} of {queue} has no address now", topic=queue.topic
            )
        return broker.address
