"""Checks of what is given to single calls of a consumer: numbers, seconds, times, offsets, queues. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.wire.names import check_topic

__all__ = ["checked_count", "checked_offset", "checked_queue", "checked_queues", "checked_seconds", "checked_timestamp"]

_MOST_SECONDS = 1e9
_MOST_OFFSET = 2**63 - 1


def checked_count(name: str, value: object, most: int) -> int:
    """A whole number from 1 on.

    Raises:
        ConfigError: it is none, or too large.
    """
    if type(value) is not int or not 1 <= value <= most:
        raise ConfigError(f"{name} must be a whole number between 1 and {most}, not {value!r:.100}")
    return value


def checked_seconds(name: str, value: object) -> float:
    """A number of seconds, infinity included.

    Raises:
        ConfigError: it is none, or below 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:  # NaN is not
        raise ConfigError(f"{name} must be seconds, 0 or more, not {value!r:.100}")
    return float(value) if value <= _MOST_SECONDS else math.inf


def checked_offset(value: object) -> int:
    """An offset.

    Raises:
        ConfigError: it is none.
    """
    if type(value) is not int or not 0 <= value <= _MOST_OFFSET:
        raise ConfigError(f"an offset must be a whole number, 0 or more, not {value!r:.100}")
    return value


def checked_timestamp(value: object) -> int:
    """Milliseconds since 1970, of a number of them or of a datetime with a time zone.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigError(f"a datetime must have a time zone, and {value!r} has none: call astimezone() on it")
        return int(value.timestamp() * 1000)
    if type(value) is not int or not 0 <= value <= _MOST_OFFSET:
        raise ConfigError(f"a time must be milliseconds since 1970, or a datetime with a time zone, not {value!r:.100}")
    return value


def checked_queues(queues: object) -> frozenset[MessageQueue]:
    """Queues as they were given, each once.

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
    """A queue as it was given.

    Raises:
        ConfigError: this is none.
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
