"""Selection: what a lite pull consumer consumes: subscribed topics, or assigned queues, never both.

It may be changed at any time and by any thread, before the start and after it. Each change is one operation, so that
no lock is needed, which a signal handler could not wait for. Plays the part of subscriptionInner in RebalanceImpl, and
of SubscriptionType in DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.client.arguments import checked_queues
from rocketpy.consumer.subscription import Subscription, subscription_data, warn_of_separator
from rocketpy.errors import ConfigError
from rocketpy.wire.names import check_topic

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["Selection"]


class Kind(Enum):
    """How a consumer gets its queues."""

    SUBSCRIBE = "subscribe"
    ASSIGN = "assign"


class _Assigned(NamedTuple):
    queues: frozenset[MessageQueue] = frozenset()
    """The queues that were assigned; empty if none were."""
    subscriptions: Mapping[str, Subscription] = MappingProxyType({})
    """Topic to what is read of it."""


class Selection:
    """The selection of one consumer.

    Args:
        on_change: called after every change.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._kind: dict[str, Kind] = {}  # a dict for its setdefault, which is one operation
        self._subscribed: dict[str, Subscription] = {}
        self._assigned = _Assigned()

    def subscribe(self, topic: str, tags: str | None, sql: str | None) -> None:
        """Subscribe to a topic, whose queues the group shares out; an earlier subscription to it is replaced.

        Raises:
            ConfigError: the topic or the expression cannot be used, or queues were assigned before.
        """
        subscription = _subscription(topic, tags, sql)
        self._use(Kind.SUBSCRIBE)
        self._subscribed[topic] = subscription
        self._on_change()

    def unsubscribe(self, topic: object) -> None:
        """Remove the subscription to a topic.

        Raises:
            ConfigError: the topic is not subscribed.
        """
        if not isinstance(topic, str) or self._subscribed.pop(topic, None) is None:
            subscribed = ", ".join(tuple(self._subscribed)) or "none"
            raise ConfigError(f"the topic {topic!r:.300} is not subscribed; subscribed topics: {subscribed}")
        self._on_change()

    def assign(self, queues: Iterable[MessageQueue], tags: str | None, sql: str | None) -> None:
        """Choose exactly these queues.

        Raises:
            ConfigError: there are no queues, one or the expression cannot be used, or a topic was subscribed before.
        """
        wanted = checked_queues(queues)
        if not wanted:
            raise ConfigError("assign needs at least one queue: give some, or close the consumer")
        subscriptions = {topic: _subscription(topic, tags, sql) for topic in sorted({each.topic for each in wanted})}
        self._use(Kind.ASSIGN)
        self._assigned = _Assigned(wanted, subscriptions)
        self._on_change()

    def adopt(self, others: Selection) -> None:
        """Take over the selection of a consumer that this one's replaces."""
        self._kind, self._subscribed, self._assigned = dict(others._kind), dict(others._subscribed), others._assigned

    def _use(self, kind: Kind) -> None:
        before = self._kind.setdefault("kind", kind)
        if before is not kind:
            raise ConfigError(
                f"a consumer uses either subscribe or assign, and this one has used {before.value}: make another "
                f"consumer to {kind.value}"
            )

    @property
    def _chooses(self) -> bool:
        return self._kind.get("kind") is Kind.ASSIGN

    # --- looking --------------------------------------------------------------------------------------

    def get(self, topic: str) -> Subscription | None:
        """The subscription to a topic, None if it is not wanted."""
        return (self._assigned.subscriptions if self._chooses else self._subscribed).get(topic)

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that is subscribed, or of which queues are assigned."""
        return tuple(self._assigned.subscriptions if self._chooses else self._subscribed)

    def chosen(self, topic: str) -> list[MessageQueue] | None:
        """The assigned queues of a topic, sorted; None if the group shares them out."""
        return sorted(each for each in self._assigned.queues if each.topic == topic) if self._chooses else None

    @property
    def assigned(self) -> frozenset[MessageQueue]:
        """The queues that were assigned, of every topic; none if topics are subscribed."""
        return self._assigned.queues

    def filters(self) -> list[SubscriptionData]:
        """The tags or expression of every topic."""
        found = [self.get(topic) for topic in self.topics]
        return [each.data for each in found if each is not None]

    def data(self) -> list[SubscriptionData]:
        """The subscriptions for heartbeats. Assigned queues are left out, as they concern no other member."""
        return [each.data for each in tuple(self._subscribed.values())]


def _subscription(topic: str, tags: str | None, sql: str | None) -> Subscription:
    check_topic(topic)
    if tags is not None and sql is not None:
        raise ConfigError(f"filter {topic} by tags or by sql, not by both")
    warn_of_separator(topic, tags)
    return Subscription(subscription_data(topic, tags, sql), None)
