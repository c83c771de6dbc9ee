"""Names of topics and groups: what is allowed, what is the system's own, and the names derived from a group.

One validator for every entry: ASCII letters, digits and ``% | _ -``. No accepted name contains a path separator or a
dot. Plays the part of TopicValidator, Validators and KeyBuilder.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from rocketpy.errors import ConfigError

__all__ = [
    "AUTO_CREATE_TOPIC",
    "DLQ_PREFIX",
    "GROUP_MAX_LENGTH",
    "LMQ_PREFIX",
    "NOT_ALLOWED_SEND",
    "RETRY_PREFIX",
    "SCHEDULE_TOPIC",
    "STORED_NAME_MAX_LENGTH",
    "SYSTEM_GROUPS",
    "SYSTEM_TOPICS",
    "TIMER_TOPIC",
    "TOPIC_MAX_LENGTH",
    "TRANSACTION_DISCARD_TOPIC",
    "TRANSACTION_GROUP",
    "TRANSACTION_HALF_TOPIC",
    "TRANSACTION_OP_TOPIC",
    "check_group",
    "check_topic",
    "dlq_topic",
    "group_of_retry_topic",
    "is_pop_retry_topic_v2",
    "is_retry_topic",
    "is_system_group",
    "is_system_topic",
    "is_valid_group",
    "is_valid_server_name",
    "is_valid_stored_topic",
    "is_valid_topic",
    "pop_retry_topic_v1",
    "pop_retry_topic_v2",
    "retry_topic",
]

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
"""Queues of Apache's brokers that lead to messages of other topics; they have no settings of their own."""
TOPIC_MAX_LENGTH: Final = 127
GROUP_MAX_LENGTH: Final = 120
STORED_NAME_MAX_LENGTH: Final = 255
"""Topics that a broker derives from a group, and groups as a broker takes them from old clients."""

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_DISCARD_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
_SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
_OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
_SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group under which a broker stores its progress with transactions."""

NOT_ALLOWED_SEND: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        TRANSACTION_DISCARD_TOPIC,
        _SELF_TEST_TOPIC,
        _OFFSET_MOVED_TOPIC,
    }
)
"""Topics that clients may not send to."""

SYSTEM_TOPICS: Final = NOT_ALLOWED_SEND | {
    AUTO_CREATE_TOPIC,
    "BenchmarkTest",
    "RMQ_SYS_TRACE_TOPIC",
    "CHECKPOINT_TOPIC",
}
SYSTEM_GROUPS: Final = frozenset(
    {
        "DEFAULT_PRODUCER",
        "DEFAULT_CONSUMER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)

_match = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
_match_server = re.compile(r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.@-]*").fullmatch
_match_pop_retry = re.compile(r"%RETRY%[%|a-zA-Z0-9_-]+\+[%|a-zA-Z0-9_-]+").fullmatch


# --- rules ---------------------------------------------------------------------------------------------


def check_topic(name: str, *, what: str = "topic") -> None:
    """Refuse what no client may use as a topic.

    Raises:
        ConfigError: the name is blank, too long, or has characters besides letters, digits and ``% | _ -``.
    """
    _check(name, what, TOPIC_MAX_LENGTH)


def check_group(name: str) -> None:
    """Refuse what no client may use as a group; shorter than a topic, for topics are derived from it.

    Raises:
        ConfigError: the name is blank, too long, or has characters besides letters, digits and ``% | _ -``.
    """
    _check(name, "group", GROUP_MAX_LENGTH)


def _check(name: object, what: str, longest: int) -> None:
    if not isinstance(name, str):
        raise ConfigError(f"the {what} must be a str, not {name!r:.100}")
    if not name or name.isspace():
        raise ConfigError(f"the {what} is blank")
    if len(name) > longest:
        raise ConfigError(f"the {what} {name[:32]!r}... has {len(name)} characters, {longest} are allowed")
    if not _match(name):
        raise ConfigError(f"the {what} {name!r} has characters besides letters, digits and the four of '%|_-'")


def is_valid_topic(name: str) -> bool:
    """Whether a broker takes the name from outside: to create it, to send to it."""
    return len(name) <= TOPIC_MAX_LENGTH and _match(name) is not None


def is_valid_stored_topic(name: str) -> bool:
    """Whether a broker may hold the topic: also the longer names that it derives from groups for retries."""
    if len(name) <= TOPIC_MAX_LENGTH and _match(name):
        return True
    if len(name) > STORED_NAME_MAX_LENGTH or not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        return False
    return _match(name) is not None or _match_pop_retry(name) is not None


def is_valid_server_name(name: str) -> bool:
    """Whether a name server takes the name of a broker or cluster: also host names, and "room@name"."""
    return len(name) <= TOPIC_MAX_LENGTH and _match_server(name) is not None


def is_valid_group(name: str, *, longest: int = STORED_NAME_MAX_LENGTH) -> bool:
    """Whether a broker takes the group name; longer ones than a client of ours may use, as Apache's does."""
    return len(name) <= longest and _match(name) is not None


def is_system_topic(name: str, extra: AbstractSet[str] = frozenset()) -> bool:
    """Whether the topic is the system's own; `extra` names those of one broker (its name, its cluster, ...)."""
    return name in SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIX) or name in extra


def is_system_group(name: str) -> bool:
    """Whether the group is the system's own."""
    return name in SYSTEM_GROUPS or name.startswith(_SYSTEM_GROUP_PREFIX)


# --- derived names -------------------------------------------------------------------------------------


def retry_topic(group: str) -> str:
    """Where messages wait that the group gave back."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where messages end that the group gave back too often."""
    return DLQ_PREFIX + group


def is_retry_topic(topic: str) -> bool:
    """Whether the topic holds messages that a group gave back."""
    return topic.startswith(RETRY_PREFIX)


def group_of_retry_topic(topic: str) -> str | None:
    """The group of a retry topic, None for other topics; POP retry topics only in their second form."""
    if not topic.startswith(RETRY_PREFIX):
        return None
    name = topic[len(RETRY_PREFIX) :]
    group, plus, rest = name.partition("+")
    return group if plus and rest and "+" not in rest else name


def pop_retry_topic_v1(topic: str, group: str) -> str:
    """Where messages of one topic wait that a POP group gave back, first form; ambiguous, for names hold ``_``."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def pop_retry_topic_v2(topic: str, group: str) -> str:
    """The second form: no name holds ``+``, so it can be taken apart."""
    return f"{RETRY_PREFIX}{group}+{topic}"


def is_pop_retry_topic_v2(topic: str) -> bool:
    """Whether the topic has the second form."""
    return topic.startswith(RETRY_PREFIX) and "+" in topic
