"""Moments: milliseconds since 1970, or an aware datetime. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from rocketpy.errors import ConfigError

__all__ = ["SECONDS_BELOW", "checked_moment"]

SECONDS_BELOW: Final = 10**11
"""Whole numbers from 1 to here look like seconds: as milliseconds they are before March 1973."""
_MOST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def checked_moment(name: str, value: object) -> int:
    """Convert a moment to milliseconds since 1970.

    Args:
        name: what it is, for errors.
        value: milliseconds since 1970, or a datetime with a time zone. 0 is before all messages, and so is every
            datetime before 1970: brokers take a negative time for the end of a queue.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ConfigError(f"{name} must have a time zone, and {value!r} has none: call astimezone() on it")
        return max(0, (value - _EPOCH) // _MILLISECOND)
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ConfigError(f"{name} must be milliseconds since 1970, or a datetime with a time zone, not {value!r:.100}")
    if 0 < value < SECONDS_BELOW:
        raise ConfigError(f"{name} is {value}, which looks like seconds: give milliseconds")
    return value
