"""What the calls of Admin about topics return. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

import attrs

from rocketpy.message import MessageQueue
from rocketpy.reprs import Short

__all__ = [
    "GroupTraffic",
    "QueueStats",
    "TopicOnBroker",
    "TopicRoute",
    "TopicSettings",
    "TopicStats",
    "TopicTraffic",
]


@attrs.frozen(kw_only=True, repr=False)
class TopicSettings(Short):
    """The settings of a topic on one broker."""

    _shown_first: ClassVar[tuple[str, ...]] = ("topic", "broker", "read_queues", "write_queues", "permission")

    topic: str
    broker: str
    """The name of the broker."""
    read_queues: int
    write_queues: int
    permission: str
    """What clients may do; "rw", "r" or "w", or "" for nothing."""
    order: bool = False
    """Whether the topic keeps the same queues while a broker is down, by its order configuration."""
    message_type: str | None = None
    """The kind of messages that the topic is for, such as NORMAL, DELAY, FIFO or TRANSACTION; None if none is set."""
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    """All attributes of RocketMQ 5.x, by name."""


@attrs.frozen(kw_only=True, repr=False)
class TopicOnBroker(Short):
    """A broker that holds queues of a topic."""

    broker: str
    """The name of the broker, which its master and slaves share."""
    cluster: str
    addresses: Mapping[int, str]
    """Host and port of the master and the slaves, by broker id; 0 is the master."""
    read_queues: int
    write_queues: int
    permission: str
    """What clients may do; "rw", "r" or "w", or "" for nothing."""


@attrs.frozen(kw_only=True, repr=False)
class TopicRoute(Short):
    """The brokers that hold a topic, as a name server lists them."""

    topic: str
    brokers: tuple[TopicOnBroker, ...]
    """Sorted by name."""
    order_config: str | None = None
    """The order configuration, with the number of queues of each broker, as in ``broker-a:4``; None if not set."""


@attrs.frozen(kw_only=True, repr=False)
class QueueStats(Short):
    """The two ends of one queue."""

    queue: MessageQueue
    begin: int
    """The offset of its oldest message."""
    end: int
    """The offset that its next message will get."""
    last_written_at: datetime | None = None
    """When its newest message was stored; None if it is empty."""

    @property
    def messages(self) -> int:
        """The number of messages in it."""
        return self.end - self.begin


@attrs.frozen(kw_only=True, repr=False)
class TopicStats(Short):
    """The queues of a topic, and the rate of messages that are stored in it."""

    topic: str
    queues: tuple[QueueStats, ...]
    """Sorted by broker and queue id."""
    put_rate: float = 0.0
    """Messages a second that were stored in the last minute; 0 from brokers of 4.x, which do not report it."""

    @property
    def messages(self) -> int:
        """The number of messages in all queues."""
        return sum(each.messages for each in self.queues)


@attrs.frozen(kw_only=True, repr=False)
class GroupTraffic(Short):
    """How much of a topic a consumer group consumes."""

    group: str
    lag: int
    """Messages of the topic that the group has yet to consume."""
    get_rate: float
    """Messages a second that its members received in the last minute."""
    gets: int
    """Messages that its members received in the last day; of a young group, in the last hour or minute."""


@attrs.frozen(kw_only=True, repr=False)
class TopicTraffic(Short):
    """How much of a topic is stored and consumed."""

    topic: str
    put_rate: float
    """Messages a second that were stored in the last minute."""
    puts: int
    """Messages that were stored in the last day; of a young topic, in the last hour or minute."""
    groups: tuple[GroupTraffic, ...]
    """The groups that consume it, sorted."""
