"""What a consumer subscribes: for each topic what it wants of it, and which listener gets it.

May be changed at any time and by any thread, before the start and after it: each change is one operation on a dict, and
each look a copy made by one, so that no lock is needed, which a signal handler could not wait for. The retry topic of
the group belongs to it from the beginning. Plays the part of subscriptionInner in RebalanceImpl.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from rocketpy.errors import ConfigError
from rocketpy.message import MessageExt, PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies import subscription as wire
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.names import check_topic, retry_topic

__all__ = ["Listener", "Subscription", "Subscriptions", "subscription_data"]

Listener: TypeAlias = Callable[[Any], Any]
"""A plain or async function of one message, or of a list if `consume_message_batch_max_size` is over 1."""


@attrs.frozen
class Subscription:
    """One topic and whoever listens to it; the retry topic has nobody of its own."""

    data: SubscriptionData
    listener: Listener | None
    directly: Listener | None = None
    """The listener for messages that somebody asks to have consumed, whatever was consumed before."""

    def wants(self, message: MessageExt) -> bool:
        """Check the tag by its text: brokers compare hashes, and different tags may have the same."""
        return self.data.matches_tag(message.tags)

    def filtered(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """Those that are really wanted."""
        if not self.data.tags_set or self.data.class_filter_mode:
            return messages
        return [message for message in messages if self.wants(message)]


_last_version = 0
_versions = threading.RLock()  # a signal handler may subscribe while the thread that it interrupts does


def next_version() -> int:
    """The version of a subscription: the time in milliseconds, and always more than the last one of this process.

    A broker keeps the subscription with the highest version for as long as the group has a member connected: after a
    step back of the clock, the bare time would let it keep the old one. A process that starts again with such a clock
    while other members are connected has no way to know their versions; what it subscribes counts once its clock has
    passed them, or once the group was without a member for a moment.
    """
    global _last_version
    with _versions:
        _last_version = max(_last_version + 1, wall_ms())
        return _last_version


class Subscriptions:
    """The subscriptions of one consumer.

    Args:
        group: the consumer group.
        on_change: called after every change.
        wrap: what stands around each listener.
        wrap_directly: what does so when somebody asks for a call of it.
        retries: whether the group gives messages back, and so has a retry topic.

    Attributes:
        retry_topic: where messages wait that the group gave back.
    """

    def __init__(
        self,
        group: str,
        on_change: Callable[[], None],
        *,
        wrap: Callable[[Listener], Listener] = lambda listener: listener,
        wrap_directly: Callable[[Listener], Listener] = lambda listener: listener,
        retries: bool = True,
    ) -> None:
        self._wrap, self._wrap_directly = wrap, wrap_directly
        self.retry_topic = retry_topic(group)
        self._on_change = on_change
        self._by_topic: dict[str, Subscription] = {}
        if retries:
            retried = subscription_data(self.retry_topic, None, None)
            self._by_topic[self.retry_topic] = Subscription(retried, None)

    def add(self, topic: str, listener: Listener, *, tags: str | None = None, sql: str | None = None) -> None:
        """Subscribe a topic; a subscription to it that is there already is replaced.

        Raises:
            ConfigError: the topic, the expression or the listener cannot be used.
        """
        check_topic(topic)
        if topic == self.retry_topic:
            raise ConfigError(f"the retry topic {topic} is subscribed automatically: subscribe to the original topics")
        _check_listener(topic, listener)
        if tags is not None and sql is not None:
            raise ConfigError(f"subscribe {topic} by tags or by sql, not by both")
        data = subscription_data(topic, tags, sql)
        self._by_topic[topic] = Subscription(data, self._wrap(listener), self._wrap_directly(listener))
        self._on_change()

    def adopt(self, others: Subscriptions) -> None:
        """Subscribe what others do, those of an object that this one replaces."""
        self._by_topic = dict(others._by_topic)

    def remove(self, topic: str) -> None:
        """Subscribe a topic no more.

        Raises:
            ConfigError: it was not subscribed.
        """
        if topic == self.retry_topic or self._by_topic.pop(topic, None) is None:
            raise ConfigError(f"the topic {topic!r} is not subscribed, only {', '.join(self.user_topics) or 'none'}")
        self._on_change()

    def get(self, topic: str) -> Subscription | None:
        """The subscription to a topic, None when there is none."""
        return self._by_topic.get(topic)

    def listener(self, topic: str) -> Listener | None:
        """Who listens to a topic, None when nobody does."""
        found = self._by_topic.get(topic)
        return None if found is None else found.listener

    def directly(self, topic: str) -> Listener | None:
        """Who listens to messages of a topic that somebody asks to have consumed, None when nobody does."""
        found = self._by_topic.get(topic)
        return None if found is None else found.directly

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic, the retry topic included; none when nothing was subscribed."""
        topics = tuple(self._by_topic)
        return topics if topics != (self.retry_topic,) else ()

    @property
    def user_topics(self) -> tuple[str, ...]:
        """The topics that were subscribed."""
        return tuple(topic for topic in tuple(self._by_topic) if topic != self.retry_topic)

    def data(self) -> list[SubscriptionData]:
        """As brokers hear it."""
        return [subscription.data for subscription in tuple(self._by_topic.values())]

    def show_original_topic(self, messages: Sequence[MessageExt]) -> None:
        """Put the topic back on messages of the retry topic that they were sent to at first."""
        for message in messages:
            if message.topic == self.retry_topic:
                message.topic = message.properties.get(PropertyName.RETRY_TOPIC) or message.topic


def _check_listener(topic: str, listener: object) -> None:
    """Said at once: otherwise every message would fail, and be among the dead letters in the end."""
    if not callable(listener):
        raise ConfigError(f"the listener of {topic} must be a function of a message, not {listener!r:.100}")
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):
        return  # what is written in C need not tell
    try:
        signature.bind(None)
    except TypeError as exc:
        raise ConfigError(
            f"the listener of {topic} must be a function of one argument, the message (or the list of messages): "
            f"{listener!r:.100}: {exc}"
        ) from exc


def subscription_data(topic: str, tags: object, sql: object) -> SubscriptionData:
    """A subscription that is newer than all before it.

    Raises:
        ConfigError: the expression cannot be used.
    """
    data = _parsed(topic, tags, sql)
    data.sub_version = next_version()
    return data


def _parsed(topic: str, tags: object, sql: object) -> SubscriptionData:
    if sql is not None:
        if not isinstance(sql, str) or not sql.strip():
            raise ConfigError(f"the sql of the subscription to {topic} must be an expression, not {sql!r}")
        return wire.build(topic, sql, expression_type=wire.SQL92)
    if tags is not None and not isinstance(tags, str):
        raise ConfigError(f"tags must be a text like 'created || paid', not {tags!r}")
    return wire.build(topic, tags)
