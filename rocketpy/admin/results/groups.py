"""What the calls of Admin about consumer groups and their offsets return. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

import attrs

from rocketpy.message import MessageQueue
from rocketpy.reprs import Short, joined

__all__ = ["GroupLag", "GroupSettings", "QueueLag", "QueueOffset"]


@attrs.frozen(kw_only=True, repr=False)
class GroupSettings(Short):
    """The settings of a consumer group on one broker."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group", "broker", "consume", "max_retries")

    group: str
    broker: str
    """The name of the broker."""
    consume: bool
    """Whether it may consume at all."""
    broadcast: bool
    """Whether it may use broadcasting."""
    orderly: bool
    """Whether brokers of 5.x treat it as a group that consumes in order."""
    max_retries: int
    """How many times a message is retried before it becomes a dead letter."""
    retry_queues: int
    """Number of queues of its retry topic."""
    consume_timeout: float
    """Seconds that a member may take for a message."""
    forbidden_topics: tuple[str, ...] = ()
    """Topics that it may not read."""
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    """All attributes of RocketMQ 5.x, by name."""


@attrs.frozen(kw_only=True, repr=False)
class QueueLag(Short):
    """The lag of a group in one queue."""

    _shown_first: ClassVar[tuple[str, ...]] = ("queue", "end", "committed")

    queue: MessageQueue
    end: int
    """The offset that the next message of the queue will get."""
    committed: int
    """The committed offset of the group, which is that of the next message to consume."""
    pulled: int
    """The offset up to which the members of the group have pulled; at least `committed`."""
    last_consumed_at: datetime | None = None
    """When the message before `committed` was stored; None if there is none, or if it was deleted."""

    @property
    def lag(self) -> int:
        """Messages that the group has yet to consume."""
        return max(0, self.end - self.committed)

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not committed yet."""
        return max(0, self.pulled - self.committed)


@attrs.frozen(kw_only=True, repr=False)
class GroupLag:
    """The lag of a group."""

    group: str
    queues: tuple[QueueLag, ...]
    """Sorted, including those of its retry topic."""
    rate: float = 0.0
    """Messages a second that its members received in the last minute."""

    def __repr__(self) -> str:
        """The group, its lag and its rate, in one line."""
        return joined("GroupLag", (f"group={self.group!r}", f"lag={self.lag}", f"rate={self.rate:.4g}"))

    @property
    def lag(self) -> int:
        """Messages that the group has yet to consume."""
        return sum(each.lag for each in self.queues)

    @property
    def in_flight(self) -> int:
        """Messages that were pulled and are not committed yet."""
        return sum(each.in_flight for each in self.queues)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it consumes, sorted."""
        return tuple(sorted({each.queue.topic for each in self.queues}))

    def of_topic(self, topic: str) -> GroupLag:
        """The lag in one topic only. The rate is still that of all topics."""
        return attrs.evolve(self, queues=tuple(each for each in self.queues if each.queue.topic == topic))


@attrs.frozen(kw_only=True, repr=False)
class QueueOffset(Short):
    """An offset in a queue."""

    queue: MessageQueue
    offset: int
