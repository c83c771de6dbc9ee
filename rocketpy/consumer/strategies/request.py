"""What a strategy is asked, and what it is. Plays the part of AllocateMessageQueueStrategy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs

from rocketpy.message import MessageQueue

__all__ = ["AllocateRequest", "AllocateStrategy"]


@attrs.frozen
class AllocateRequest:
    """What a strategy gets: one topic, everybody in the group, and which of them asks."""

    group: str
    """The consumer group."""
    topic: str
    """The topic, which is the retry topic of the group as well."""
    client_id: str
    """Who asks. It is one of `client_ids`."""
    queues: tuple[MessageQueue, ...]
    """All queues of the topic that can be read, sorted."""
    client_ids: tuple[str, ...]
    """All members of the group, sorted as Java sorts text."""

    @property
    def index(self) -> int:
        """The place of who asks among the members, from 0 on."""
        return self.client_ids.index(self.client_id)


AllocateStrategy: TypeAlias = Callable[[AllocateRequest], Iterable[MessageQueue]]
"""Says which queues of a topic are consumed by the member that asks. It must be quick, and give the same answer to the
same request in every member: together the members must take each queue exactly once."""
