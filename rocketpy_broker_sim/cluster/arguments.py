"""Checks of the arguments of clusters. Each error says which values are allowed. Pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.durations import duration, shown
from rocketpy.errors import ConfigError
from rocketpy.message import Message
from rocketpy.wire.names import NOT_ALLOWED_SEND

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["check_message", "check_number", "check_slot", "checked_seconds", "names_like"]

_SHOWN = 5


def check_number(name: str, value: object, low: int = 1, high: float = math.inf) -> None:
    """Check that a value is a whole number from `low` to `high`.

    Raises:
        ConfigError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number, not {value!r:.100}")
    if not low <= value <= high:
        bounds = f"at least {low}" if high == math.inf else f"{low} to {high:g}"
        raise ConfigError(f"{name} must be {bounds}, not {value}")


def checked_seconds(name: str, value: float | timedelta) -> float:
    """Convert a duration, a number of seconds or a timedelta, to seconds.

    Raises:
        ConfigError: it is not a duration, or negative.
    """
    seconds: object = duration(value)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigError(f"{name} must be seconds or a timedelta, not {value!r:.100}")
    if not seconds >= 0:
        raise ConfigError(f"{name} must be 0 or more seconds, not {shown(seconds)}")
    return seconds


def check_slot(what: str, number: object, count: int) -> None:
    """Check that a cluster has a server with this number.

    Raises:
        ConfigError: there is no such server.
    """
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigError(f"give the number of the {what}, a whole number, not {number!r:.100}")
    if not 0 <= number < count:
        known = f"one {what}, number 0" if count == 1 else f"{count} {what}s, numbered from 0 to {count - 1}"
        raise ConfigError(f"there is no {what} {number}: the cluster has {known}")


def check_message(message: object) -> None:
    """Check that a value is a message, and that clients may send to its topic.

    Raises:
        ConfigError: it is not a Message, or its topic is a system topic.
    """
    if not isinstance(message, Message):
        raise ConfigError(f"send takes a Message, not {message!r:.100}")
    if message.topic in NOT_ALLOWED_SEND:
        raise ConfigError(f"{message.topic} is a system topic: clients cannot send to it")


def names_like(name: str, known: Iterable[str]) -> str:
    """The end of an error that says that there is no such name: similar names, or some of the known ones."""
    names = sorted(set(known))
    by_lower = {each.lower(): each for each in names}
    like = [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=3)]
    if like:
        return f": did you mean {' or '.join(like)}?"
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"; known: {', '.join(names[:_SHOWN])}{more}"
