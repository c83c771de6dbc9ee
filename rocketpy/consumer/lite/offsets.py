"""The offset store of a lite pull consumer, which commits only what the consumer has decided to commit."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.message import MessageQueue

__all__ = ["NotedOffsets"]


class NotedOffsets:
    """An offset store on top of another one, which does not record every offset. Plays the part of OffsetStore.

    Args:
        store: where offsets are kept.
        automatic: whether commits are automatic. If so, the offset at which pulling of a queue begins counts as the
            group's progress, and is committed even if nothing was handed out.
    """

    def __init__(self, store: OffsetStore, *, automatic: bool) -> None:
        self._store = store
        self._automatic = automatic
        self.at_brokers = store.at_brokers

    async def open(self) -> None:
        """Open the store.

        Raises:
            OffsetStoreError: it cannot be used.
        """
        await self._store.open()

    async def close(self) -> None:
        """Release what `open` has taken."""
        await self._store.close()

    # --- memory ---------------------------------------------------------------------------------------

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Record the offset at which pulling begins, if commits are automatic."""
        if self._automatic:
            self._store.update(queue, offset, increase_only=increase_only)

    def note(self, queue: MessageQueue, offset: int) -> None:
        """Record the group's progress. It may be lower than before, after a seek or a reset."""
        self._store.update(queue, offset)

    def memory(self, queue: MessageQueue) -> int | None:
        """The recorded offset of a queue, None if there is none."""
        return self._store.memory(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget the recorded offset of a queue."""
        self._store.remove(queue)

    # --- what the store has -----------------------------------------------------------------------------

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset that the store has, None if it has none; it is also recorded if commits are automatic.

        Raises:
            RocketMQError: the store could not be asked.
        """
        return await (self._store.read(queue) if self._automatic else self._store.committed(queue))

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that the store has, None if it has none.

        Raises:
            RocketMQError: the store could not be asked.
        """
        return await self._store.committed(queue)

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, without waiting for the store. Errors are logged."""
        await self._store.persist(queues)

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, and wait until the store has them.

        Raises:
            RocketMQError: a queue could not be committed; if several, the error of the first one in sorted order. All
                are attempted.
        """
        await self._store.commit(queues)

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit the recorded offsets of these queues. Returns the queues that are not committed by the deadline."""
        return await self._store.commit_all(queues, deadline=deadline)

    def unwritten(self, queues: Collection[MessageQueue]) -> list[MessageQueue]:
        """Those of these queues whose recorded offsets the store may not have."""
        return self._store.unwritten(queues)
