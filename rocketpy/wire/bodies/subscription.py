"""A subscription as it travels: the topic, the expression, and for tags their hashes.

Client and broker share it, so that both mean the same by "the same subscription". Plays the part of SubscriptionData
and FilterAPI.
"""

from __future__ import annotations

from rocketpy.seams import wall_ms
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = ["ALL", "SQL92", "TAG", "SubscriptionData"]

ALL = "*"
"""The expression that matches every message."""
TAG = "TAG"
SQL92 = "SQL92"


@body
class SubscriptionData(Body):
    """What a consumer wants of a topic."""

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
