"""Convert Java's configuration keys and texts to fields of our settings and back. Pure.

Settings are attrs classes. The key of a field is the camel-case form of its name, or the one in its metadata if Java's
name is irregular. Plays the part of MixAll.properties2Object and MixAll.object2Properties.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import attrs

from rocketpy.errors import ConfigError
from rocketpy.wire.fields import camel_case
from rocketpy_broker_sim.config.kinds import KEY

if TYPE_CHECKING:
    from attrs import AttrsInstance

__all__ = ["as_properties", "fields_by_key", "key_of", "read_value", "set_value", "text_of"]


def key_of(field: attrs.Attribute[Any]) -> str:
    """Java's key of a field."""
    key: str = field.metadata.get(KEY) or camel_case(field.name)
    return key


def fields_by_key(kind: type[AttrsInstance]) -> Mapping[str, tuple[str, Any]]:
    """Java's key -> (field name, type) for every field that holds a plain value."""
    return _fields_by_key(kind)


@cache  # every server that starts asks, and evaluating the annotations takes longer than all else there
def _fields_by_key(kind: type[AttrsInstance]) -> Mapping[str, tuple[str, Any]]:
    hints = get_type_hints(kind)
    found = {}
    for field in attrs.fields(kind):
        hint = hints[field.name]
        if not attrs.has(hint):
            plain = next((one for one in get_args(hint) if one is not type(None)), hint)
            found[key_of(field)] = (field.name, plain)
    return MappingProxyType(found)


def read_value(key: str, text: str, kind: Any) -> Any:
    """Convert the text of a key to the type of its field.

    Raises:
        ConfigError: the text is not a value of this type.
    """
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind is int:
            return _whole(text)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return kind(int(text)) if issubclass(kind, enum.IntEnum) and text.isdecimal() else kind[text.upper()]
    except (ValueError, KeyError):
        raise ConfigError(f"{key}={text!r} is not {_expected(kind)}") from None
    return text


def _whole(text: str) -> int:
    # Python also accepts 1_000 and digits of other scripts; Java's readers do not.
    if "_" in text or not text.isascii():
        raise ValueError
    return int(text)


def set_value(part: AttrsInstance, name: str, key: str, value: Any) -> None:
    """Set a field. If its validator refuses the value, the error names the key.

    Raises:
        ConfigError: the value is out of bounds.
    """
    try:
        setattr(part, name, value)
    except ConfigError:
        raise
    except (ValueError, TypeError) as exc:
        raise ConfigError(f"{key}={value!r} is not usable: {exc}") from exc


_BOOLEANS = {"true": True, "false": False}


def _expected(kind: Any) -> str:
    if kind is bool:
        return "true or false"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(member.name for member in kind)
    return "a whole number"


def as_properties(*settings: AttrsInstance) -> dict[str, str]:
    """Java's keys and texts of all plain fields, including those of nested settings. Fields that are None are left
    out."""
    found: dict[str, str] = {}
    for setting in settings:
        for key, (name, _) in fields_by_key(type(setting)).items():
            value = getattr(setting, name)
            if value is not None:
                found[key] = text_of(value)
        nested = [getattr(setting, field.name) for field in attrs.fields(type(setting))]
        found.update(as_properties(*(value for value in nested if attrs.has(type(value)))))
    return found


def text_of(value: Any) -> str:
    """The text of a value in a configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.name if isinstance(value, enum.Enum) else str(value)
