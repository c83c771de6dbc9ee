"""Durations: seconds, or a timedelta; and how long a call may wait. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["ENDLESS", "MOST_SECONDS", "check_most", "duration", "duration_or_none", "shown"]

MOST_SECONDS: Final = 600
"""The longest timeout of a call that is not endless: as long as the setting `send_timeout` may be."""
ENDLESS: Final = 1e9
"""Seconds from which a timeout counts as endless, as `math.inf` and `threading.TIMEOUT_MAX` do: thirty years, which
clocks and locks can express."""
_EXACT: Final = 2**53
"""Whole numbers below it are floats too. Larger ones are left to the check of bounds, which refuses them."""


def duration(value: float | timedelta) -> float:
    """Convert a duration to seconds. What is no duration is returned as it is, for a check that refuses it."""
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value) if -_EXACT < value < _EXACT else value
    from datetime import timedelta  # most durations are numbers

    return value.total_seconds() if isinstance(value, timedelta) else value


def duration_or_none(value: float | timedelta | None) -> float | None:
    """Convert a duration to seconds; None stays None."""
    return None if value is None else duration(value)


def check_most(name: str, seconds: float) -> None:
    """Refuse the timeout of a call that is so long that milliseconds are meant, but not an endless one.

    Raises:
        ConfigError: it is that long.
    """
    if MOST_SECONDS < seconds < ENDLESS:
        raise ConfigError(
            f"{name} must be at most {MOST_SECONDS} seconds, or math.inf to wait without end, not {shown(seconds)}; it "
            "counts in seconds, not in milliseconds"
        )


def shown(seconds: object) -> str:
    """Seconds as a user writes them, without the fraction of whole ones."""
    whole = int(seconds) if isinstance(seconds, float) and seconds.is_integer() else seconds
    return f"{whole!r:.100}"
