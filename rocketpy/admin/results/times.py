"""Times in results, as datetimes with a time zone. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["moment"]

_MOST = 253_402_300_799_999
"""The last millisecond of the year 9999, after which there are no datetimes."""


def moment(milliseconds: int) -> datetime | None:
    """Milliseconds since 1970 as a datetime in UTC; None for 0, negative numbers, and times after the year 9999.

    Servers use 0 or -1 for "never".
    """
    if not 0 < milliseconds <= _MOST:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
