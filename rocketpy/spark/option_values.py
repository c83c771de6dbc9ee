"""The values of options of ``format("rocketmq")``: text becomes what a setting takes. Pure.

Options with the prefix ``rocketmq.`` are settings of the client. They keep the names that they have in Python; case and
underscores do not count, so `rocketmq.accessKey` is `access_key`. Errors name them as `rocketmq.accessKey`, because
Spark would show the value of `rocketmq.access_key`. Durations are seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import attrs

from rocketpy.errors import ConfigError
from rocketpy.spark.option_names import CLIENT_PREFIX, SECRETS, as_option, folded

__all__ = ["boolean", "client_settings", "json_value", "not_whole", "one_word", "redacted", "whole_number"]

_ELSEWHERE: Final[Mapping[str, str]] = {
    "namesrv": "use the option namesrv",
    "instancename": "it names one client, and every Python worker of Spark is one of its own",
}


def boolean(name: str, text: str) -> bool:
    """The value of an option that is on or off.

    Raises:
        ConfigError: it is neither.
    """
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, not {text!r:.100}")
    return word == "true"


def whole_number(name: str, text: str, low: int, high: int = 2**63 - 1) -> int:
    """The value of an option that is a whole number within bounds.

    Raises:
        ConfigError: it is not.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and low <= int(digits) <= high):
        raise not_whole(name, text, low, high)
    return int(digits)


def not_whole(name: str, value: object, low: int, high: int) -> ConfigError:
    """The error for a value that is no whole number within bounds."""
    bounds = f"between {low} and {high}" if high < 2**31 else f"from {low} on"
    return ConfigError(f"{name} must be a whole number {bounds}, not {value!r:.100}")


def one_word(name: str, text: str, *words: str) -> str:
    """The value of an option that is one of some words; case does not count.

    Raises:
        ConfigError: it is none of them.
    """
    word = text.strip().lower()
    if word not in words:
        raise ConfigError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, not {text!r:.100}")
    return word


def json_value(name: str, text: str, example: str) -> Any:
    """The value of an option that is JSON.

    Args:
        name: the option.
        text: its text.
        example: a value that it could have, for the error.

    Raises:
        ConfigError: it is not JSON, or an object in it has a member twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_doubles)
    except (json.JSONDecodeError, RecursionError) as exc:
        raise ConfigError(f"{name} is not JSON ({exc}): give, for example, {example}") from None
    except _DoubledError as exc:
        raise ConfigError(f"{name} names {exc} twice") from None


class _DoubledError(Exception):
    """A member of an object is given twice, and only one of them could count."""


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DoubledError(next(name for name in names if names.count(name) > 1))
    return found


def client_settings(
    kind: type[attrs.AttrsInstance], settings: Mapping[str, str], elsewhere: Mapping[str, str]
) -> dict[str, Any]:
    """Settings of a client, by their names in Python.

    Args:
        kind: the class of the settings.
        settings: text by folded names.
        elsewhere: what stands for settings that cannot be given like this, by folded names.

    Raises:
        ConfigError: a name is no setting, or a text cannot be read. No secret is in the error.
    """
    fields = {folded(field.name): field for field in attrs.fields(kind)}
    elsewhere = {**_ELSEWHERE, **elsewhere}
    found: dict[str, Any] = {}
    for name, text in settings.items():
        field = fields.get(name)
        if field is None or name in elsewhere:
            raise ConfigError(f"there is no option {CLIENT_PREFIX}{name}{_advice(name, fields, elsewhere)}")
        try:
            found[field.name] = _reader(field)(text)
        except ConfigError:
            raise
        except (ValueError, TypeError, RecursionError):
            shown = "the given value" if name in SECRETS else f"{text!r:.100}"
            raise ConfigError(f"{as_option(field.name)} cannot be {shown}") from None
    return found


def _advice(name: str, fields: Mapping[str, attrs.Attribute[Any]], elsewhere: Mapping[str, str]) -> str:
    if name in elsewhere:
        return f": {elsewhere[name]}"
    near = get_close_matches(name, fields, n=1, cutoff=0.6)
    return f": did you mean {as_option(fields[near[0]].name)}?" if near else ""


def _reader(field: attrs.Attribute[Any]) -> Callable[[str], Any]:
    """The function that reads the text of a setting, by the type of the setting."""
    kind = str(field.type).removesuffix(" | None")
    if kind == "bool":
        return lambda text: boolean(as_option(field.name), text)
    if kind.startswith("frozenset"):
        return lambda text: frozenset(json.loads(text))
    return _READERS.get(kind.partition("[")[0], str)


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {"float": float, "int": int, "dict": json.loads}


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """An error without the values of secrets, and with the names that their options have.

    Args:
        text: the error.
        settings: settings of the client, by folded names.
    """
    for name in SECRETS:
        if value := settings.get(name):
            text = text.replace(value, "***")
    for setting in SECRETS.values():
        text = re.sub(rf"\b{setting}\b", as_option(setting), text)
    return text
