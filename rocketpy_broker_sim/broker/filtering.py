"""From what a consumer subscribes to the filter that the store and the waiters ask. Plays ExpressionMessageFilter.

A filter has two phases, by the entry of the queue and by the message. Tags need the first alone: the broker compares
hashes, so it may let through a message whose tag has the same hash, and the client compares the text, as with Apache's
broker. What is declared here is the bound on what a request may ask the broker to compare.
"""

from __future__ import annotations

from rocketpy.errors import ConfigError
from rocketpy.wire.bodies.subscription import ALL, SubscriptionData, build, is_tag_type
from rocketpy_broker_sim.store.filtering import MessageFilter

__all__ = ["MAX_EXPRESSION", "MAX_TAGS", "bounded_subscription", "check_bounds", "filter_of"]

MAX_EXPRESSION = 4096
"""Characters of a tag expression."""
MAX_TAGS = 256


def check_bounds(wanted: SubscriptionData) -> None:
    """Refuse a subscription by tags that is larger than any that people write.

    Raises:
        ConfigError: it has too many characters or tags.
    """
    if not wanted.is_tag:
        return
    if len(wanted.sub_string or "") > MAX_EXPRESSION:
        raise ConfigError(f"a tag expression has at most {MAX_EXPRESSION} characters, this one {wanted.topic[:127]!r}")
    if len(wanted.code_set) > MAX_TAGS or len(wanted.tags_set) > MAX_TAGS:
        raise ConfigError(f"a tag expression names at most {MAX_TAGS} tags")


def bounded_subscription(topic: str, expression: str | None, expression_type: str | None) -> SubscriptionData:
    """What an expression of a request subscribes.

    Raises:
        ConfigError: it asks for nothing, or is too large.
    """
    if is_tag_type(expression_type) and len(expression or "") > MAX_EXPRESSION:
        raise ConfigError(f"a tag expression has at most {MAX_EXPRESSION} characters")
    wanted = build(topic, expression, expression_type=expression_type)
    check_bounds(wanted)
    return wanted


def filter_of(wanted: SubscriptionData) -> MessageFilter | None:
    """The filter of a subscription by tags; None when every message is wanted."""
    if wanted.class_filter_mode or not wanted.sub_string or wanted.sub_string == ALL:
        return None
    return MessageFilter(frozenset(wanted.code_set))
