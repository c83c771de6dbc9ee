"""A subscription as it travels: the topic, the expression, and for tags their hashes.

Client and broker share it, so that both mean the same by "the same subscription" and by "this message matches". Plays
the part of SubscriptionData, FilterAPI and ExpressionType.
"""

from __future__ import annotations

from rocketpy.errors import ConfigError
from rocketpy.seams import wall_ms
from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = ["ALL", "SQL92", "TAG", "SubscriptionData", "build", "is_tag_type"]

ALL = "*"
"""The expression that matches every message."""
TAG = "TAG"
SQL92 = "SQL92"

_SEPARATOR = "||"
_BLANKS = "".join(map(chr, range(33)))
"""What Java trims: everything up to the blank."""


@body
class SubscriptionData(Body):
    """What a consumer wants of a topic. Two are the same when all members are, the version included."""

    topic: str
    sub_string: str | None = ALL
    """The expression as the user wrote it."""
    tags_set: set[str] = member(factory=set)
    code_set: set[Int32] = member(factory=set)
    """Java's hash of each tag: all that a broker looks at."""
    sub_version: int = member(factory=wall_ms)
    """When it was subscribed, in ms; a broker keeps the newest."""
    expression_type: str | None = TAG
    class_filter_mode: bool = False

    def __hash__(self) -> int:
        """Of all that is compared but the version, as in Java; do not change what is in a set."""
        sets = frozenset(self.tags_set), frozenset(self.code_set)
        return hash((self.topic, self.sub_string, self.expression_type, self.class_filter_mode, *sets))

    def __lt__(self, other: SubscriptionData) -> bool:
        """By topic and expression: the order in which a consumer shows its subscriptions."""
        return self._place < other._place

    @property
    def _place(self) -> str:
        return f"{self.topic}@{self.sub_string}"

    @property
    def is_tag(self) -> bool:
        """Whether the expression is one of tags."""
        return is_tag_type(self.expression_type)

    def matches_tag(self, tag: str | None) -> bool:
        """What a client checks again by the text itself."""
        return not self.tags_set or self.class_filter_mode or tag in self.tags_set


def is_tag_type(expression_type: str | None) -> bool:
    """Whether expressions of this type are tags; none at all means tags, too."""
    return not expression_type or expression_type == TAG


def build(topic: str, expression: str | None = ALL, *, expression_type: str | None = TAG) -> SubscriptionData:
    """The subscription to what an expression asks for.

    Args:
        topic: the topic.
        expression: tags joined by ``||``, ``*`` (or nothing) for every message, or SQL92.
        expression_type: `TAG` or `SQL92`.

    Raises:
        ConfigError: the expression asks for nothing.
    """
    if not is_tag_type(expression_type):
        if not expression:
            raise ConfigError(f"the subscription to {topic} by {expression_type} needs an expression")
        return SubscriptionData(topic=topic, sub_string=expression, expression_type=expression_type)
    if not expression or expression == ALL:
        return SubscriptionData(topic=topic)
    tags = {tag for part in expression.split(_SEPARATOR) if (tag := part.strip(_BLANKS))}
    if not expression.replace(_SEPARATOR, ""):
        raise ConfigError(f"the subscription to {topic} has no tag between its separators: {expression!r}")
    return SubscriptionData(
        topic=topic, sub_string=expression, tags_set=tags, code_set={string_hash(tag) for tag in tags}
    )
