"""Offsets of a lite pull consumer: only what it has decided to commit is ever committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.consumer.offset_store import RemoteBrokerOffsetStore

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue

__all__ = ["NotedOffsets"]


class NotedOffsets(RemoteBrokerOffsetStore):
    """Offsets at the broker that holds the queue.

    Args:
        client: how to reach brokers.
        group: whose offsets.
        automatic: whether committing is automatic. If so, where a queue begins, and where a broker moves it, counts as
            how far the group is; a group that is new goes on there although nothing was handed out.
    """

    def __init__(self, client: MQClientInstance, group: str, *, automatic: bool) -> None:
        super().__init__(client, group)
        self._automatic = automatic

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Where pulling begins, or begins again."""
        if self._automatic:
            super().update(queue, offset, increase_only=increase_only)

    def note(self, queue: MessageQueue, offset: int) -> None:
        """The group has got so far. It may be less than before: somebody sought."""
        super().update(queue, offset)
