"""What an allocation strategy is, and its argument. Plays the part of AllocateMessageQueueStrategy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs

from rocketpy.message import MessageQueue
from rocketpy.reprs import Short

__all__ = ["AllocateRequest", "AllocateStrategy"]


@attrs.frozen(repr=False)
class AllocateRequest(Short):
    """The argument of a strategy: one topic, all members of the group, and which of them asks."""

    group: str
    """The consumer group."""
    topic: str
    """The topic; a strategy is also called for the retry topic of the group."""
    client_id: str
    """The member that asks, one of `client_ids`."""
    queues: tuple[MessageQueue, ...]
    """All readable queues of the topic, sorted."""
    client_ids: tuple[str, ...]
    """The client ids of all members of the group, sorted as Java sorts strings."""

    @property
    def index(self) -> int:
        """The position of `client_id` among the members, from 0."""
        return self.client_ids.index(self.client_id)


AllocateStrategy: TypeAlias = Callable[[AllocateRequest], Iterable[MessageQueue]]
"""Returns the queues of a topic that the requesting member consumes. It is called in a thread, for one topic at a time,
and must be consistent in all members, so that together they take each queue exactly once."""
