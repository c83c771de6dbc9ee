"""Offsets of a lite pull consumer: only what it has decided to commit is ever committed."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.consumer.offset_store import OffsetStore
    from rocketpy.message import MessageQueue

__all__ = ["NotedOffsets"]


class NotedOffsets:
    """An offset store that has another one below it, and notes less. Plays the part of OffsetStore.

    Args:
        store: where offsets are kept.
        automatic: whether committing is automatic. If so, where a queue begins, and where a broker moves it, counts as
            how far the group is; a group that is new goes on there although nothing was handed out.
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
        """Let go of what `open` took."""
        await self._store.close()

    # --- memory ---------------------------------------------------------------------------------------

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Where pulling begins, or begins again."""
        if self._automatic:
            self._store.update(queue, offset, increase_only=increase_only)

    def note(self, queue: MessageQueue, offset: int) -> None:
        """The group has got so far. It may be less than before: somebody sought."""
        self._store.update(queue, offset)

    def memory(self, queue: MessageQueue) -> int | None:
        """What is noted, None when nothing is."""
        return self._store.memory(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Forget what is noted."""
        self._store.remove(queue)

    # --- what the store has -----------------------------------------------------------------------------

    async def read(self, queue: MessageQueue) -> int | None:
        """What the store has; it is noted as well where committing is automatic.

        Raises:
            RocketMQError: the store could not be asked.
        """
        return await (self._store.read(queue) if self._automatic else self._store.committed(queue))

    async def committed(self, queue: MessageQueue) -> int | None:
        """What the store has; None when it has nothing.

        Raises:
            RocketMQError: the store could not be asked.
        """
        return await self._store.committed(queue)

    async def persist(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these queues, without waiting for the store. Errors are logged."""
        await self._store.persist(queues)

    async def commit(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these queues, until the store has it.

        Raises:
            RocketMQError: that of the first queue, in order, that is not committed. The others are, or are tried.
        """
        await self._store.commit(queues)

    async def commit_all(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit what is noted for these queues. Returns those of which the store does not have it by the deadline."""
        return await self._store.commit_all(queues, deadline=deadline)
