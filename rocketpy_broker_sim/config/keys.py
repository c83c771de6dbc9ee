"""Turn Java's configuration keys and texts into fields of our settings and back.

A setting is an attrs class; the key of a field is the camel-case form of its name, or what its metadata say where
Java's name is irregular. Reads the format of java.util.Properties, as `mqbroker -c FILE` does. Plays the part of
MixAll.properties2Object and MixAll.object2Properties.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import attrs

from rocketpy.errors import ConfigError
from rocketpy.wire.fields import camel_case

if TYPE_CHECKING:
    from attrs import AttrsInstance

__all__ = [
    "as_properties",
    "fields_by_key",
    "format_properties",
    "java_key",
    "parse_properties",
    "read_value",
    "set_value",
]

_KEY = "rocketpy.java_key"


def java_key(name: str) -> dict[str, str]:
    """Metadata of a field whose key is not the camel-case form of its name."""
    return {_KEY: name}


def fields_by_key(kind: type[AttrsInstance]) -> dict[str, tuple[str, Any]]:
    """Java's key -> (field name, type) for every field that holds a plain value."""
    hints = get_type_hints(kind)
    found = {}
    for field in attrs.fields(kind):
        if not attrs.has(hints[field.name]):
            kind = next((one for one in get_args(hints[field.name]) if one is not type(None)), hints[field.name])
            found[field.metadata.get(_KEY) or camel_case(field.name)] = (field.name, kind)
    return found


def read_value(key: str, text: str, kind: Any) -> Any:
    """The value of a key as its field's type.

    Raises:
        ConfigError: the text is no such value.
    """
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return kind[text.upper()]
    except (ValueError, KeyError):
        raise ConfigError(f"{key}={text!r} is not {_expected(kind)}") from None
    return text


def set_value(part: AttrsInstance, name: str, key: str, value: Any) -> None:
    """Set a field; what its validator refuses becomes an error of the key.

    Raises:
        ConfigError: the value is out of bounds.
    """
    try:
        setattr(part, name, value)
    except (ValueError, TypeError) as exc:
        raise ConfigError(f"{key}={value!r} is not usable: {exc}") from exc


_BOOLEANS = {"true": True, "false": False}


def _expected(kind: Any) -> str:
    if kind is bool:
        return "true or false"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(member.name for member in kind)
    return "a number"


def as_properties(*settings: AttrsInstance) -> dict[str, str]:
    """Java's keys and texts of all plain fields, nested settings included; what is None is left out."""
    found: dict[str, str] = {}
    for setting in settings:
        for key, (name, _) in fields_by_key(type(setting)).items():
            value = getattr(setting, name)
            if value is not None:
                found[key] = _text(value)
        nested = [getattr(setting, field.name) for field in attrs.fields(type(setting))]
        found.update(as_properties(*(value for value in nested if attrs.has(type(value)))))
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.name if isinstance(value, enum.Enum) else str(value)


def format_properties(properties: Mapping[str, str]) -> str:
    """``key=value`` lines, as the bodies of the configuration requests carry them."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


# --- the file format -----------------------------------------------------------------------------------


def parse_properties(text: str) -> dict[str, str]:
    """Read a properties text: comments, ``key=value``, ``key: value``, continued lines and escapes.

    The last of a doubled key wins.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text.splitlines()):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(lines: Iterable[str]) -> Iterable[str]:
    pending = ""
    for raw in lines:
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Key and value; the key ends at the first bare blank, ``=`` or ``:``."""
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    # Java keeps trailing blanks; every reader of such a file is bitten by them, and no key here means them.
    return key, rest.rstrip()


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            out.append(_code_point(text[position : position + 4]))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)


def _code_point(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except ValueError:
        raise ConfigError(f"\\u{digits} in the properties is not an escaped character") from None
