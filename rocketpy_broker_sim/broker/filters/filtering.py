"""Makes the filter of a subscription, which the store and the held pulls use.

A filter has two phases: by the consume queue's entry, then by the message. Tags need only the first one. There the
broker compares hashes, so it may let through a message whose tag has the same hash, and the client compares the text,
as with Apache's broker. Expressions need the second phase, and the first one too if bit maps are kept. The limits on
subscriptions are declared here as well. Plays ExpressionMessageFilter and ExpressionForRetryMessageFilter.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.message import PropertyName
from rocketpy.wire.bodies.subscription import ALL, SQL92, SubscriptionData, build, is_tag_type
from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.store.filtering import ByBits, MessageFilter

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable
    from rocketpy_broker_sim.filter.expression import Expression

__all__ = [
    "KEPT_CHARACTERS",
    "MAX_EXPRESSION",
    "MAX_TAGS",
    "bounded_subscription",
    "check_bounds",
    "cut",
    "filter_by",
    "filter_of",
    "filter_of_retries",
    "most_looked_at",
    "no_property_filter",
    "unknown_type",
]

MAX_EXPRESSION = 32 * 1024
"""Characters that a tag expression may have. A pull that carries one has its tags hashed at once: within 10 ms."""
MAX_TAGS = 2048
"""Tags that a subscription may name. Held pulls keep their hashes, 200 KB with so many: one connection holds 150."""
KEPT_CHARACTERS = 64 * 1024
"""Characters that are kept of an expression. Fewer can be compiled, but members compare what they subscribe to."""
_INSTEAD = "use fewer tags, or subscribe to everything and choose in the listener"
_RETRY_TOPIC = PropertyName.RETRY_TOPIC.encode()
_MICROSECONDS = 6000.0
"""Time that one pull may spend on evaluating messages."""
_COST_OF_READING = 3.0
_COST_OF_ANY = 280.0
_COST_OF_ANY_BYTE = 0.26
"""The cost for each byte of the most expensive expression possible."""


def check_bounds(wanted: SubscriptionData) -> None:
    """Refuse a subscription by tags that exceeds the limits. Expressions are compiled, which refuses those too long.

    Raises:
        ConfigError: it has too many characters or tags.
    """
    if not wanted.is_tag:
        return
    size, tags = len(wanted.sub_string or ""), max(len(wanted.code_set), len(wanted.tags_set))
    if size > MAX_EXPRESSION:
        raise ConfigError(_too_long(size, wanted.topic))
    if tags > MAX_TAGS:
        raise ConfigError(
            f"a tag expression names at most {MAX_TAGS} tags, that for {wanted.topic[:127]!r} names {tags}: {_INSTEAD}"
        )


def _too_long(size: int, topic: str) -> str:
    return f"a tag expression has at most {MAX_EXPRESSION} characters, that for {topic[:127]!r} has {size}: {_INSTEAD}"


def cut(wanted: SubscriptionData) -> SubscriptionData:
    """A subscription as tables keep it: without the rest of an expression that is much too long to be compiled."""
    text = wanted.sub_string or ""
    if wanted.is_tag or len(text) <= KEPT_CHARACTERS:
        return wanted
    kept = copy(wanted)
    kept.sub_string = text[:KEPT_CHARACTERS]
    return kept


def bounded_subscription(topic: str, expression: str | None, expression_type: str | None) -> SubscriptionData:
    """Make a subscription of the expression in a request.

    Raises:
        ConfigError: the expression cannot be used, or is too long.
    """
    if is_tag_type(expression_type) and len(expression or "") > MAX_EXPRESSION:
        raise ConfigError(_too_long(len(expression or ""), topic))
    wanted = build(topic, expression, expression_type=expression_type)
    check_bounds(wanted)
    return wanted


def no_property_filter(expression_type: str | None) -> str:
    """The error text for an expression while property filters are off."""
    return (
        f"the broker does not filter messages by {str(expression_type)[:64]}: set enablePropertyFilter=true in its "
        "configuration, or subscribe by tags"
    )


def unknown_type(expression_type: str | None) -> str:
    """The error text for an unknown type of expression."""
    return f"there are no expressions of the type {str(expression_type)[:64]}: subscribe by TAG or {SQL92}"


def filter_of(wanted: SubscriptionData) -> MessageFilter | None:
    """The filter of a subscription by tags; None if every message is wanted."""
    if wanted.class_filter_mode or not wanted.sub_string or wanted.sub_string == ALL:
        return None
    return MessageFilter(frozenset(wanted.code_set))


def filter_by(expression: Expression, by_bits: ByBits | None = None) -> MessageFilter:
    """The filter of a subscription by an expression.

    Args:
        expression: the compiled expression.
        by_bits: the test of bit maps, if they are kept.
    """
    return MessageFilter(
        by_bits=by_bits,
        by_message=expression.matches,
        most_looked_at=most_looked_at(expression.cost),
        most_bytes=int(_MICROSECONDS / (expression.cost_of_byte or 1.0)),
        size=expression.size,
    )


def filter_of_retries(group: str, table: ConsumerFilterTable) -> MessageFilter:
    """The filter of a group's retry topic, which applies the group's filter of each message's original topic."""

    def matches(properties: bytes) -> bool:
        topic = find_property(properties, _RETRY_TOPIC)
        data = None if topic is None else table.get(topic.decode("utf-8", "replace"), group)
        return data is None or data.compiled.matches(properties)

    few, size = most_looked_at(_COST_OF_ANY), int(_MICROSECONDS / _COST_OF_ANY_BYTE)
    return MessageFilter(by_message=matches, most_looked_at=few, most_bytes=size)


def most_looked_at(cost: float) -> int:
    """How many messages one pull has time to evaluate, at `cost` microseconds each."""
    return max(1, int(_MICROSECONDS / (cost + _COST_OF_READING)))
