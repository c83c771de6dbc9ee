"""Enumerations of the protocol that travel by name in headers and bodies.

The names are RocketMQ's, so that they need no table; both sides of the protocol take them from here. So is the order:
some clients write the place of a member in its enumeration, counted from 0, instead of its name.
"""

from __future__ import annotations

from enum import Enum

__all__ = [
    "BoundaryType",
    "CMResult",
    "ConsumeFromWhere",
    "ConsumeType",
    "GroupRetryPolicyType",
    "MessageModel",
    "MessageRequestMode",
    "TopicFilterType",
]


class BoundaryType(Enum):
    """Which of the messages with the same store time a search means."""

    LOWER = "LOWER"
    UPPER = "UPPER"


class ConsumeType(Enum):
    """How a consumer gets its messages."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    """By polling: a lite pull consumer."""
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    """By push."""
    CONSUME_POP = "CONSUME_POP"


class MessageModel(Enum):
    """Whether the members of a group share the messages, or each gets all."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(Enum):
    """Where a group starts on a queue that it has never read."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    # Three names of the time before 3.0; peers may still say them, and mean CONSUME_FROM_LAST_OFFSET.
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class TopicFilterType(Enum):
    """Whether a message of the topic has one tag or several."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class GroupRetryPolicyType(Enum):
    """Which of the two retry policies of a group holds."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class MessageRequestMode(Enum):
    """How the broker wants a queue to be consumed."""

    PULL = "PULL"
    POP = "POP"


class CMResult(Enum):
    """What came of consuming one message directly."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"
