"""Subscriptions: for each topic of a consumer, the tags or expression, and the listener.

They may be changed at any time and by any thread, before the start and after it. Each change is one operation on a
dict, and each read makes a copy in one operation, so that no lock is needed, which a signal handler could not wait for.
The retry topic of the group is subscribed from the beginning. Plays the part of subscriptionInner in RebalanceImpl.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from rocketpy.errors import ConfigError
from rocketpy.logs import get_logger
from rocketpy.message import MessageExt, PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies import subscription as wire
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.names import check_topic, retry_topic

if TYPE_CHECKING:
    from rocketpy.logs import Seldom

__all__ = ["Listener", "Subscription", "Subscriptions", "subscription_data", "warn_of_separator"]

logger = get_logger(__name__)

Listener: TypeAlias = Callable[[Any], Any]
"""A plain or async function of one message, or of a list if `consume_message_batch_max_size` is over 1."""


@attrs.frozen
class Subscription:
    """The subscription to one topic, with its listener; the retry topic has no listener of its own."""

    data: SubscriptionData
    listener: Listener | None
    directly: Listener | None = None
    """The listener for messages that an administrator wants consumed directly, duplicates or not."""
    given: Listener | None = None
    """The user's function, around which both are wrapped."""

    def wants(self, message: MessageExt) -> bool:
        """Whether a message has a wanted tag. Brokers only compare hashes, which different tags may share."""
        return self.data.matches_tag(message.tags)

    def filtered(self, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
        """The messages that have a wanted tag."""
        if not self.data.tags_set or self.data.class_filter_mode:
            return messages
        return [message for message in messages if self.wants(message)]


_last_version = 0
_versions = threading.RLock()  # a signal handler may subscribe while the thread that it interrupts does


def next_version() -> int:
    """A new version for a subscription: the time in ms since 1970, but always more than this process's last version.

    A broker keeps the subscription with the highest version as long as the group has a member connected, so with the
    time alone it would keep an old one after the clock was set back. A process that is restarted after that cannot know
    the versions of connected members: its subscriptions take effect once its clock has passed those versions, or once
    the group had no member for a moment.
    """
    global _last_version
    with _versions:
        _last_version = max(_last_version + 1, wall_ms())
        return _last_version


def _is_same(before: Listener | None, now: Listener) -> bool:
    """Whether two listeners are one. A bound method is another object each time it is named."""
    return before is now or (isinstance(before, MethodType) and isinstance(now, MethodType) and before == now)


class Subscriptions:
    """The subscriptions of one consumer.

    Args:
        group: the consumer group.
        on_change: called after every change.
        wrap: wraps each listener.
        wrap_directly: wraps each listener for messages that an administrator wants consumed directly.
        retries: whether the consumer sends messages back, and so subscribes to the retry topic.

    Attributes:
        retry_topic: the topic of messages that the group has sent back.
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
        """Subscribe to a topic; an earlier subscription to it is replaced. With the same listener, only the filter is.

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
        warn_of_separator(topic, tags)
        before = self._by_topic.get(topic)
        if before is not None and _is_same(before.given, listener):
            self._by_topic[topic] = attrs.evolve(before, data=data)
        else:
            self._by_topic[topic] = Subscription(data, self._wrap(listener), self._wrap_directly(listener), listener)
        self._on_change()

    def adopt(self, others: Subscriptions) -> None:
        """Take over the subscriptions of an object that this one replaces."""
        self._by_topic = dict(others._by_topic)

    def remove(self, topic: object) -> None:
        """Remove the subscription to a topic.

        Raises:
            ConfigError: the topic is not subscribed.
        """
        found = None
        if isinstance(topic, str) and topic != self.retry_topic:
            found = self._by_topic.pop(topic, None)
        if found is None:
            raise ConfigError(
                f"the topic {topic!r:.300} is not subscribed; subscribed topics: "
                f"{', '.join(self.user_topics) or 'none'}"
            )
        self._on_change()

    def get(self, topic: str) -> Subscription | None:
        """The subscription to a topic, None when there is none."""
        return self._by_topic.get(topic)

    def listener(self, topic: str) -> Listener | None:
        """The listener of a topic, None if it has none."""
        found = self._by_topic.get(topic)
        return None if found is None else found.listener

    def directly(self, topic: str) -> Listener | None:
        """The listener of a topic for messages that an administrator wants consumed directly; None if there is none."""
        found = self._by_topic.get(topic)
        return None if found is None else found.directly

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic, the retry topic included; none if the user has not subscribed to any."""
        topics = tuple(self._by_topic)
        return topics if topics != (self.retry_topic,) else ()

    @property
    def user_topics(self) -> tuple[str, ...]:
        """The topics that the user has subscribed to."""
        return tuple(topic for topic in tuple(self._by_topic) if topic != self.retry_topic)

    def data(self) -> list[SubscriptionData]:
        """The subscriptions as heartbeats carry them."""
        return [subscription.data for subscription in tuple(self._by_topic.values())]

    def show_original_topic(self, messages: Sequence[MessageExt]) -> None:
        """Give messages of the retry topic the original topic that their properties name."""
        for message in messages:
            if message.topic == self.retry_topic:
                message.topic = message.wire_properties.get(PropertyName.RETRY_TOPIC) or message.topic


def _check_listener(topic: str, listener: object) -> None:
    """Refuse what cannot be called with a message: otherwise every message would fail, and become a dead letter."""
    if not callable(listener):
        raise ConfigError(f"the listener of {topic} must be a function of a message, not {listener!r:.100}")
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):
        return  # functions written in C may have no signature
    try:
        signature.bind(None)
    except TypeError as exc:
        raise ConfigError(
            f"the listener of {topic} must be a function of one argument, the message (or the list of messages): "
            f"{listener!r:.100}: {exc}"
        ) from exc


_OTHER_SEPARATOR = re.compile(r",|(?<!\|)\|(?!\|)")


def warn_of_separator(topic: str, tags: object, seldom: Seldom | None = None) -> None:
    """Warn if tags are probably meant to be several and are one, because another separator than ``||`` joins them.

    Args:
        topic: the topic.
        tags: its tags.
        seldom: limits the warnings of a caller that filters often.
    """
    if isinstance(tags, str) and _OTHER_SEPARATOR.search(tags):
        log = logger.warning if seldom is None else partial(seldom.warning, (topic, tags))
        log("the filter of %s has tags %r: the separator of tags is ||, as in 'created || paid'", topic, tags)


def subscription_data(topic: str, tags: object, sql: object) -> SubscriptionData:
    """Build the data of a subscription, with a new version.

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
