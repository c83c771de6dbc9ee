"""A group's progress: recorded in memory, committed at intervals, and read when a queue is assigned.

Plays the part of OffsetStore and RemoteBrokerOffsetStore.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

import trio

from rocketpy.client.api import offset as offset_api
from rocketpy.consumer.offsets.one_first import one_first
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.logs import Seldom, get_logger

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue

__all__ = ["OffsetStore", "RemoteBrokerOffsetStore"]

logger = get_logger(__name__)


class OffsetStore(Protocol):
    """Where offsets are kept. An offset is the next one to consume.

    Attributes:
        at_brokers: whether brokers keep them, so that pulls may carry commits.
    """

    at_brokers: bool

    async def open(self) -> None:
        """Open the store, before anything else is called.

        Raises:
            OffsetStoreError: the store cannot be used.
        """
        ...

    async def close(self) -> None:
        """Release what `open` has taken."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Record the progress of a queue in memory; with `increase_only`, a lower offset is ignored."""
        ...

    def memory(self, queue: MessageQueue) -> int | None:
        """The offset recorded in memory, None if there is none."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """The store's offset of a queue, which is recorded in memory too; None if the store has none.

        Raises:
            RocketMQError: the store could not be asked, so it is unknown whether it has an offset.
        """
        ...

    async def committed(self, queue: MessageQueue) -> int | None:
        """The store's offset of a queue, without recording it; None if the store has none.

        Raises:
            RocketMQError: the store could not be asked.
        """
        ...

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, without waiting for the store. Errors are logged."""
        ...

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, and wait until the store has them.

        Raises:
            RocketMQError: a queue could not be committed; if several, the error of the first one in sorted order. All
                are attempted.
        """
        ...

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit the recorded offsets of these queues. Returns the queues that are not committed by the deadline."""
        ...

    def unwritten(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Those of these queues whose recorded offsets the store may not have."""
        ...

    def remove(self, queue: MessageQueue) -> None:
        """Forget the offset recorded in memory."""
        ...


class RemoteBrokerOffsetStore:
    """Keeps offsets at the broker that holds the queue, where all members of a group share them.

    Args:
        client: how to reach brokers.
        group: the consumer group.
    """

    at_brokers = True

    def __init__(self, client: MQClientInstance, group: str) -> None:
        self._client = client
        self._group = group
        self._offsets: dict[MessageQueue, int] = {}
        self._failing: set[str] = set()
        self._seldom = Seldom(logger, clock=trio.current_time)

    async def open(self) -> None:
        """Do nothing: each call finds out whether its broker can be reached."""

    async def close(self) -> None:
        """Do nothing: `open` has taken nothing."""

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Record the progress of a queue in memory; with `increase_only`, a lower offset is ignored."""
        if increase_only:
            known = self._offsets.get(queue)
            if known is not None and known >= offset:
                return
        self._offsets[queue] = offset

    def memory(self, queue: MessageQueue) -> int | None:
        """The offset recorded in memory, None if there is none."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget the offset recorded in memory."""
        self._offsets.pop(queue, None)

    async def read(self, queue: MessageQueue) -> int | None:
        """The broker's offset of a queue, which is recorded in memory too; None if it has none.

        For a group without an offset, a broker answers 0 if the queue still has its first message.

        Raises:
            RocketMQError: the broker cannot be reached, or refuses.
        """
        offset = await self.committed(queue)
        if offset is not None:
            self.update(queue, offset)
        return offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """The broker's offset of a queue, as in `read`, without recording it.

        Raises:
            RocketMQError: the broker cannot be reached, or refuses.
        """
        address = await self._address(queue)
        return await offset_api.query_consumer_offset(
            self._client.pool, address, self._group, queue, timeout=self._client.config.request_timeout
        )

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, all at once. Errors are logged, and the next commit tries again.

        Unchanged offsets are committed too, so that a broker that lost its table in a crash soon has them again.
        """
        async with trio.open_nursery() as nursery:
            for queue in queues:
                if queue in self._offsets:
                    nursery.start_soon(self._commit, queue, False, None)

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, and wait for the answers.

        Raises:
            RocketMQError: a queue could not be committed; if several, the error of the first one in sorted order. All
                are attempted.
        """
        failures: dict[MessageQueue, RocketMQError] = {}

        async def tell(queue: MessageQueue) -> None:
            try:
                await self._tell(queue, wait=True)
            except RocketMQError as error:
                failures[queue] = error

        await one_first(tell, sorted(queue for queue in queues if queue in self._offsets))
        if failures:
            raise failures[min(failures)]

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit the recorded offsets of these queues. Returns the queues that are not committed by the deadline."""
        committed: set[MessageQueue] = set()

        async def tell(queue: MessageQueue) -> None:
            await self._commit(queue, True, committed)

        with trio.move_on_at(deadline):
            await one_first(tell, [queue for queue in queues if queue in self._offsets])
        return [queue for queue in queues if queue in self._offsets and queue not in committed]

    def unwritten(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Those of these queues whose offsets are recorded: the broker may have forgotten what it was told."""
        return [queue for queue in queues if queue in self._offsets]

    @trio.lowlevel.enable_ki_protection
    async def _commit(self, queue: MessageQueue, wait: bool, committed: set[MessageQueue] | None) -> None:
        offset = self._offsets.get(queue, 0)
        try:
            await self._tell(queue, wait=wait)
        except RocketMQError as error:
            # Only the first of several failures in a row is logged: a broker may be away for hours.
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
        """Send one commit to the broker.

        Args:
            queue: the queue.
            offset: the offset of the next message to consume.
            wait: whether to wait for the broker's answer.

        Raises:
            RocketMQError: the broker cannot be reached; with `wait`, also if it does not answer, or refuses.
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

    async def _tell(self, queue: MessageQueue, *, wait: bool) -> None:
        """Send the recorded offset of a queue to the broker, unless the queue has been forgotten meanwhile.

        The offset is looked up only when the broker is connected, as another commit or a pull may carry a higher one to
        it meanwhile. Brokers take lower offsets too, and the next owner of the queue would begin there.
        """
        address = await self._address(queue)
        if self._client.pool.nowait(address) is None:
            await self._client.pool.get(address, timeout=self._client.config.request_timeout)
        offset = self._offsets.get(queue)
        if offset is not None:
            await self.tell(queue, offset, wait=wait)

    async def _address(self, queue: MessageQueue) -> str:
        """The address of the queue's master, or of a slave while there is no master."""
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
