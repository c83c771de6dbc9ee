"""Checks of the arguments of consumers and of Admin: counts, seconds, timestamps, offsets, queues. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.durations import ENDLESS, check_most, duration
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.moments import checked_moment
from rocketpy.wire.names import DLQ_PREFIX, RETRY_PREFIX, check_group, check_topic

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = [
    "check_dead_letters",
    "checked_count",
    "checked_flag",
    "checked_offset",
    "checked_queue",
    "checked_queues",
    "checked_seconds",
    "checked_timestamp",
]

_MOST_OFFSET = 2**63 - 1


def checked_count(name: str, value: object, most: int, *, least: int = 1) -> int:
    """Check a whole number from `least` to `most`, and return it.

    Raises:
        ConfigError: it is not such a number.
    """
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{name} must be a whole number between {least} and {most}, not {value!r:.100}")
    return value


def checked_flag(name: str, value: object) -> bool:
    """Check a bool, and return it: the text "False" and the number 2 are true, and would do what nobody wants.

    Raises:
        ConfigError: it is not a bool.
    """
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {value!r:.100}")
    return value


def checked_seconds(name: str, value: float | timedelta) -> float:
    """Check a duration, which may be infinite, and return it in seconds.

    Raises:
        ConfigError: it is no duration, negative, or so long that milliseconds are meant.
    """
    seconds: object = duration(value)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:  # NaN is not
        raise ConfigError(f"{name} must be seconds or a timedelta, 0 or more, not {value!r:.100}")
    check_most(name, seconds)
    return float(seconds) if seconds < ENDLESS else math.inf


def checked_offset(value: object) -> int:
    """Check an offset, and return it.

    Raises:
        ConfigError: it is not a whole number from 0 on.
    """
    if type(value) is not int or not 0 <= value <= _MOST_OFFSET:
        raise ConfigError(f"an offset must be a whole number, 0 or more, not {value!r:.100}")
    return value


def checked_timestamp(value: object) -> int:
    """Convert a timestamp, given in ms since 1970 or as a datetime with a time zone, to ms since 1970.

    Raises:
        ConfigError: it is neither, or looks like seconds.
    """
    return checked_moment("a time", value)


def checked_queues(queues: object) -> frozenset[MessageQueue]:
    """Check one queue or several, and return them as a set.

    Raises:
        ConfigError: these are not queues.
    """
    given = [queues] if isinstance(queues, MessageQueue) else queues
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise ConfigError(f"queues must be a list of rocketpy.MessageQueue, not {queues!r:.100}")
    found = list(given)
    for queue in found:
        checked_queue(queue)
    return frozenset(found)


def checked_queue(queue: object) -> MessageQueue:
    """Check a queue, and return it.

    Raises:
        ConfigError: it is not a queue.
    """
    if not isinstance(queue, MessageQueue):
        raise ConfigError(
            f"a queue must be a rocketpy.MessageQueue, such as fetch_message_queues gives, not {queue!r:.100}"
        )
    kinds = tuple(map(type, queue))
    if kinds != (str, str, int):
        raise ConfigError(f"a queue consists of a topic, a broker name and a queue id, not {tuple(queue)!r:.200}")
    check_topic(queue.topic)
    if not 0 <= queue.queue_id < 2**31:
        raise ConfigError(f"a queue id must be between 0 and {2**31 - 1}, not {queue.queue_id}")
    return queue


def check_dead_letters(group: object, limit: object) -> None:
    """Check which dead letters are meant.

    Raises:
        ConfigError: the group is not one, or the limit is not a number of 1 or more.
    """
    if not isinstance(group, str):
        raise ConfigError(f"the group must be a name, not {group!r:.100}")
    check_group(group)
    if group.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        raise ConfigError(f"the group must be named itself, not a topic of it: leave out the beginning of {group!r}")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ConfigError(f"limit must be an int of 1 or more, or None for all dead letters, not {limit!r:.100}")
