"""The timeout of one call of a producer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.durations import ENDLESS, MOST_SECONDS, check_most, duration
from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["checked_timeout"]


def checked_timeout(timeout: float | timedelta) -> float:
    """Check a timeout, and return it in seconds; an endless one as a number that clocks and locks can express.

    Raises:
        ConfigError: it is no duration, or so long that milliseconds are meant.
    """
    if type(timeout) is float and 0 < timeout <= MOST_SECONDS:
        return timeout
    seconds: object = duration(timeout)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:  # NaN is not
        raise ConfigError(f"timeout must be seconds or a timedelta, more than 0, not {timeout!r:.100}")
    check_most("timeout", seconds)
    return min(ENDLESS, seconds)
