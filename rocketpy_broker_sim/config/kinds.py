"""Kinds of settings: numbers within bounds, switches and texts. Pure.

The metadata that these functions create say which of Java's keys a setting has, or that it has none. The text below a
field says what it means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
from attrs import validators

__all__ = ["KEY", "OWN", "count", "hours", "key_name", "number", "own", "switch", "text"]

KEY = "rocketpy.java_key"
OWN = "rocketpy.own"

_LONG = 2**63 - 1
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def key_name(key: str | None) -> dict[str, Any]:
    """Metadata of a field whose key is not the camel-case form of its name."""
    return {KEY: key} if key else {}


def _whole(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("it is not a whole number")


def _within(at_least: int, at_most: int) -> Callable[[object, attrs.Attribute[Any], int], None]:
    def check(_: object, field: attrs.Attribute[Any], value: int) -> None:
        if value < at_least:
            raise ValueError(f"it must be at least {at_least}")
        if value > at_most:
            raise ValueError(f"it must be at most {at_most}")

    return check


def number(default: int, *, at_least: int = 0, at_most: int = _LONG, key: str | None = None) -> Any:
    """A whole number within bounds, both included."""
    return attrs.field(
        default=default,
        validator=[_whole, _within(at_least, at_most)],
        metadata=key_name(key),
    )


def count(default: int) -> Any:
    """A count: at least 1, at most the largest int of Java."""
    return number(default, at_least=1, at_most=2**31 - 1)


def switch(default: bool, *, key: str | None = None) -> Any:
    """True or false."""
    return attrs.field(default=default, validator=validators.instance_of(bool), metadata=key_name(key))


def text(default: str, *, without: str = "", filled: bool = False, key: str | None = None) -> Any:
    """A text on one line, without some characters. Tabs are allowed: Java treats them as blanks.

    Args:
        default: The default.
        without: Characters that are not allowed.
        filled: Whether an empty text is refused.
        key: Its key, if that is irregular.
    """

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, str):
            raise TypeError("it is not a text")
        if filled and not value.strip():
            raise ValueError("it may not be empty")
        if _CONTROL.search(value):
            raise ValueError("it may not contain line ends or control characters")
        if found := set(without) & set(value):
            raise ValueError(f"it may not contain {min(found)!r}: only one path is supported, not several")

    return attrs.field(default=default, validator=check, metadata=key_name(key))


def hours(default: str) -> Any:
    """Hours of the day, separated by semicolons."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, str):
            raise TypeError("it is not a text")
        if not all(re.fullmatch("[0-9]{1,2}", part) and int(part) < 24 for part in value.split(";")):
            raise ValueError("it must be one or more hours, as in 04 or 04;16")

    return attrs.field(default=default, validator=check)


def own(default: int | None) -> Any:
    """A limit that does not exist in Java; with the default None, it depends on the machine."""

    def check(instance: object, field: attrs.Attribute[Any], value: Any) -> None:
        if value is not None or default is not None:
            _whole(instance, field, value)
            _within(0, _LONG)(instance, field, value)

    return attrs.field(default=default, validator=check, metadata={OWN: True})
