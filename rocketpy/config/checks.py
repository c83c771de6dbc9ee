"""Checks of single settings: bounds, types, names. Each error says what is wrong and which values are allowed. Pure.

Dependencies between several settings are checked by the config itself.
"""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rocketpy.durations import shown
from rocketpy.errors import ConfigError
from rocketpy.moments import checked_moment
from rocketpy.serialization.content_types import content_type_of
from rocketpy.serialization.named import serializer
from rocketpy.wire.names import check_group, check_topic

if TYPE_CHECKING:
    import attrs

    from rocketpy.serialization.serializer import Serializer

__all__ = [
    "MIB",
    "Check",
    "by_name",
    "consume_timestamp",
    "flag",
    "folder_or_none",
    "function_or_none",
    "group_name",
    "member",
    "no_separator",
    "number",
    "offset_storage_or_none",
    "one_of",
    "one_of_or_function",
    "one_or_none",
    "plain_function_or_none",
    "seconds",
    "serializer_of",
    "topic_name",
    "whole",
]

MIB = 1024 * 1024
E = TypeVar("E", bound=enum.Enum)
_FOURTEEN_DIGITS = 10**13
"""As milliseconds since 1970, the year 2286; as yyyyMMddHHmmss, all years from 1000 on."""
Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def number(name: str, value: object, kinds: tuple[type, ...]) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        what = "a number" if float in kinds else "a whole number"
        raise ConfigError(f"{name} must be {what}, not {value!r:.100}")


def seconds(low: float, high: float) -> Check:
    """Seconds within bounds. The error points out that values are not milliseconds, as in Java."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{field.name} must be seconds or a timedelta, not {value!r:.100}")
        if not low <= value <= high:
            hint = "; it counts in seconds, not in milliseconds" if value > high else ""
            raise ConfigError(f"{field.name} must be between {low:g} and {high:g} seconds, not {shown(value)}{hint}")

    return check


def whole(low: int, high: int = 2**31 - 1, *, off: int | None = None) -> Check:
    """A whole number within bounds, or `off`, the default, which switches the setting off."""

    def check(_: object, field: attrs.Attribute[Any], value: int) -> None:
        number(field.name, value, (int,))
        if not low <= value <= high and value != off:
            switch = f", or {off}, the default" if off is not None else ""
            raise ConfigError(f"{field.name} must be between {low} and {high}{switch}, not {value!r:.100}")

    return check


def flag(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """True or False; text such as "false", as from the environment, would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{field.name} must be True or False, not {value!r:.100}")


def member(kind: type[enum.Enum], *names: str) -> Check:
    """A member of an enumeration; `names` are the short ones that `by_name` knows, for the error."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            said = ", ".join(map(repr, names[:-1])) + f" or {names[-1]!r}"
            raise ConfigError(f"{field.name} must be {said}, or a member of {kind.__name__}, not {value!r:.100}")

    return check


def by_name(kind: type[E], value: E | str, short: Mapping[str, E] | None = None) -> E:
    """Convert the name of a member, in any case, to the member. Any other value is returned as it is, for `member`.

    Args:
        kind: the enumeration.
        value: a member, or its name.
        short: further names, in lower case.
    """
    if not isinstance(value, str):
        return value
    found = (short or {}).get(value.lower()) or kind.__members__.get(value.upper())
    return cast("E", value) if found is None else found


def one_of(*choices: str) -> Check:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value not in choices:
            raise ConfigError(f"{field.name} must be one of {', '.join(choices)}, not {value!r:.100}")

    return check


def one_or_none(*choices: str) -> Check:
    check = one_of(*choices)
    return lambda config, field, value: None if value is None else check(config, field, value)


def one_of_or_function(*choices: str) -> Check:
    """One of these names, or a plain function."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if isinstance(value, str) and value in choices:
            return
        named = ", ".join(choices)
        if not callable(value):
            raise ConfigError(f"{field.name} must be one of {named}, or a function, not {value!r:.100}")
        if isinstance(value, type):
            raise ConfigError(
                f"{field.name} must be an object, not the class {value.__name__}: write {value.__name__}()"
            )
        if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
            raise ConfigError(f"{field.name} must be a plain function, and {value!r:.100} is async")

    return check


def function_or_none(*arguments: str) -> Check:
    """None, or a function that takes these arguments; with others, every call would fail."""

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value is None:
            return
        if not callable(value) or isinstance(value, type):
            raise ConfigError(f"{field.name} must be a function, not {value!r:.100}")
        try:
            signature = inspect.signature(value)
        except (TypeError, ValueError):
            return  # functions written in C may have no signature
        try:
            signature.bind(*arguments)
        except TypeError as exc:
            wanted = " and ".join(arguments)
            raise ConfigError(f"{field.name} must be a function of {wanted}: {value!r:.100}: {exc}") from exc

    return check


def plain_function_or_none(*arguments: str) -> Check:
    """None, or a function of these arguments that is not async, because nobody awaits it."""
    check_function = function_or_none(*arguments)

    def check(config: object, field: attrs.Attribute[Any], value: object) -> None:
        check_function(config, field, value)
        if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
            raise ConfigError(f"{field.name} must be a plain function, and {value!r:.100} is async")

    return check


def group_name(_: object, field: attrs.Attribute[Any], value: str) -> None:
    check_group(value)


def topic_name(_: object, field: attrs.Attribute[Any], value: str) -> None:
    check_topic(value, what=field.name)


def no_separator(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value or not value.isprintable() or "@" in value:
        raise ConfigError(
            f"{field.name} becomes part of the client id: it must be printable text without @, not {value!r:.100}"
        )


def consume_timestamp(_: object, field: attrs.Attribute[Any], value: object) -> None:
    """None, an aware datetime, milliseconds since 1970, or the 14 digits of Java."""
    if value is None:
        return
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) == 14):
            raise ConfigError(f"{field.name} must look like 20240131235959 (local yyyyMMddHHmmss), not {value!r:.100}")
    elif checked_moment(field.name, value) >= _FOURTEEN_DIGITS and isinstance(value, int):
        raise ConfigError(f"{field.name} is {value}: give local yyyyMMddHHmmss as a str, or milliseconds since 1970")


def offset_storage_or_none(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    if isinstance(value, type):
        raise ConfigError(f"{field.name} must be an object, not the class {value.__name__}")
    missing = [name for name in ("read", "write") if not callable(getattr(value, name, None))]
    if missing:
        raise ConfigError(f"{field.name} must have the methods read and write, and {value!r:.100} has no {missing[0]}")


def serializer_of(value: str | Serializer) -> str | Serializer:
    """The name of a format, which is imported when it is needed, or a serializer with a content type."""
    if isinstance(value, str) and value in ("msgpack", "json", "string", "binary"):
        return value
    content_type_of(found := serializer(value))
    return found


def folder_or_none(value: str | os.PathLike[str] | None) -> str | None:
    """A folder as a text, or None; for use as a converter."""
    if value is None:
        return None
    try:
        found: object = os.fspath(value)
    except TypeError:
        found = None
    if not isinstance(found, str) or not found or "\0" in found:
        raise ConfigError(f"local_offset_store_dir must be the path of a folder, not {value!r:.100}")
    return found
