"""Converts values from the spelling of mqadmin to ours."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError

if TYPE_CHECKING:
    from rocketpy.cli.mqadmin.alias import Words

__all__ = ["attributes", "flag", "order", "permission", "reset_time", "seconds", "time"]

_PERMISSIONS = {"2": "w", "4": "r", "6": "rw"}


def permission(text: str) -> list[str]:
    """2, 4 or 6 as w, r or rw."""
    if text not in _PERMISSIONS:
        raise ConfigError(f"-p must be 2 (write), 4 (read) or 6 (both), not {text!r:.100}")
    return ["--permission", _PERMISSIONS[text]]


def flag(name: str, *, opposite: bool = True) -> Words:
    """A value "true" or "false" as ``--name`` or ``--no-name``; without an opposite, "false" adds nothing."""

    def words(text: str) -> list[str]:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name} must be true or false, not {text!r:.100}")
        return [f"--{name}"] if text.lower() == "true" else [f"--no-{name}"] if opposite else []

    return words


def attributes(text: str) -> list[str]:
    """Changes such as ``+message.type=FIFO,-other``."""
    found: list[str] = []
    for each in text.split(","):
        sign, rest = each[:1], each[1:]
        if sign not in ("+", "-") or not rest:
            raise ConfigError(f"an attribute must be like +name=value or -name, not {each!r:.100}")
        found += ["--attribute", rest if sign == "+" else f"{rest}="]
    return found


def time(text: str) -> str:
    """A time: milliseconds, "now", or a date such as ``2026-05-04#12:30:00:000`` by the clock of this machine."""
    if text.lstrip("-").isdecimal():
        return text
    if text in ("now", "currentTimeMillis"):
        return "0s"  # as a span back from now
    try:
        return datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").astimezone().isoformat()
    except ValueError:
        raise ConfigError(
            f'a time must be milliseconds since 1970, "now", or like 2026-05-04#12:30:00:000, not {text!r:.100}'
        ) from None


def seconds(text: str) -> list[str]:
    """A timeout in milliseconds as one in seconds."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ConfigError(f"a timeout must be milliseconds, not {text!r:.100}")
    return ["--timeout", f"{int(text) / 1000:g}"]


def reset_time(text: str) -> str:
    """Where a group continues; "now" and -1 are the end."""
    return "end" if text in ("now", "-1") else time(text)


def order(text: str) -> list[str]:
    """An order configuration such as ``broker-a:4;broker-b:4``."""
    return [each.replace(":", "=") for each in text.split(";") if each]
