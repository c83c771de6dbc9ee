"""Kinds of settings: numbers within bounds, switches, texts, with what is known of their keys. Pure.

What a setting means stands in the text below its field; which of Java's keys it is, and whether it is one at all, in
the metadata that are made here.
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
    """How many of something there may be: at least one, as many as Java's int can say."""
    return number(default, at_least=1, at_most=2**31 - 1)


def switch(default: bool, *, key: str | None = None) -> Any:
    """True or false."""
    return attrs.field(default=default, validator=validators.instance_of(bool), metadata=key_name(key))


def text(default: str, *, without: str = "", filled: bool = False, key: str | None = None) -> Any:
    """A text on one line, in which some characters may not stand. A tab may: Java takes it for a blank.

    Args:
        default: What holds without one.
        without: Characters that may not stand in it.
        filled: Whether it may not be empty.
        key: Its key, where that is irregular.
    """

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, str):
            raise TypeError("it is not a text")
        if filled and not value.strip():
            raise ValueError("it may not be empty")
        if _CONTROL.search(value):
            raise ValueError("line ends and control characters may not stand in it")
        if found := set(without) & set(value):
            raise ValueError(f"{min(found)!r} may not stand in it: there is one place, not several")

    return attrs.field(default=default, validator=check, metadata=key_name(key))


def hours(default: str) -> Any:
    """Hours of the day, separated by semicolons."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, str):
            raise TypeError("it is not a text")
        if not all(re.fullmatch("[0-9]{1,2}", part) and int(part) < 24 for part in value.split(";")):
            raise ValueError("it names no hours, write them as in 04 or 04;16")

    return attrs.field(default=default, validator=check)


def own(default: int | None) -> Any:
    """A bound that Java does not have, not even as a key; None leaves it to the machine."""

    def check(instance: object, field: attrs.Attribute[Any], value: Any) -> None:
        if value is not None or default is not None:
            _whole(instance, field, value)
            _within(0, _LONG)(instance, field, value)

    return attrs.field(default=default, validator=check, metadata={OWN: True})
