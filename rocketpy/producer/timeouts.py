"""The timeout of one call of a producer. Pure."""

from __future__ import annotations

from typing import Any, Final

from rocketpy.errors import ConfigError

__all__ = ["checked_timeout"]

_MOST: Final = 600
"""Seconds: as many as the setting `send_timeout` may have."""
_ENDLESS: Final = 1e9
"""Seconds from which a timeout counts as endless, as `math.inf` and `threading.TIMEOUT_MAX` do: thirty years, which
clocks and locks can express."""


def checked_timeout(timeout: Any) -> float:
    """Check a timeout in seconds, and return it; an endless one as a number that clocks and locks can express.

    Raises:
        ConfigError: it is no number of seconds, or so many that milliseconds are meant.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:  # NaN is not
        raise ConfigError(f"timeout must be a positive number of seconds, not {timeout!r:.100}")
    if timeout <= _MOST:
        return timeout
    if timeout < _ENDLESS:
        raise ConfigError(
            f"timeout must be at most {_MOST} seconds, or math.inf to wait without end, not {timeout!r}; it counts in "
            "seconds, not in milliseconds"
        )
    return _ENDLESS
