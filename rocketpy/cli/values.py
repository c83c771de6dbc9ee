"""Values of the command line: times, durations, and pairs of a key and a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from rocketpy.errors import ConfigError

__all__ = ["TIME_HELP", "attribute_changes", "moment", "pairs", "quoted", "seconds_of"]

TIME_HELP = (
    'A time is an ISO date such as "2026-05-04T12:30" (in UTC unless it names a zone), milliseconds since 1970, or a '
    'span back from now such as "30m", "2h" or "1d".'
)
"""For the help of a command that takes a time."""

_MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"([0-9]{1,9})([smhd])")
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d|)")


def moment(name: str, text: str) -> int:
    """A time as milliseconds since 1970.

    Args:
        name: What it is, for errors.
        text: An ISO date, milliseconds, or a span back from now.

    Raises:
        ConfigError: It is none of these.
    """
    if text.isascii() and text.isdecimal() and len(text) < 20:
        return int(text)
    if ago := _AGO.fullmatch(text):
        from rocketpy.seams import wall_ms

        return max(0, wall_ms() - int(ago[1]) * _MILLISECONDS[ago[2]])
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f'{name} must be a date such as "2026-05-04T12:30", milliseconds since 1970, or a span back from now such '
            f"as 30m, 2h or 1d, not {text!r:.100}"
        ) from None
    return max(0, int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000))


def seconds_of(name: str, text: str) -> float:
    """Seconds of a duration such as 30, 0.5, 30s, 15m, 2h or 1d.

    Args:
        name: What it is, for errors.
        text: The duration.

    Raises:
        ConfigError: It is no duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ConfigError(f"{name} must be seconds, or a number with ms, s, m, h or d such as 15m, not {text!r:.60}")
    return float(found[1]) * _SECONDS[found[2]]


def pairs(what: str, texts: Iterable[str]) -> dict[str, str]:
    """A dict from texts such as ``key=value``.

    Args:
        what: What a text is, for errors.
        texts: The texts.

    Raises:
        ConfigError: A text has no "=", or a key is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise ConfigError(f"{what} must be like key=value, not {text!r:.100}")
        if key in found:
            raise ConfigError(f"{what}: {key!r:.100} is given twice")
        found[key] = value
    return found


def attribute_changes(texts: Iterable[str]) -> dict[str, str | None]:
    """Changes of attributes; one without a value is removed.

    Raises:
        ConfigError: A text has no "=", or an attribute is given twice.
    """
    return {name: value or None for name, value in pairs("--attribute", texts).items()}


def quoted(values: Mapping[str, object]) -> str:
    """A mapping as one cell of a table."""
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "-"
