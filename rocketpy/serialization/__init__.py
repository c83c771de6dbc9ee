"""Turns values into the bodies of messages and back: the formats binary, string, json and msgpack. Pure.

A message's body is always bytes; these are for those who would rather hand over a value, such as a row of a Spark
DataFrame. None of it knows messages, and nothing here unpickles.
"""

from __future__ import annotations

from rocketpy.errors import ConfigError
from rocketpy.serialization.json_text import JsonSerializer
from rocketpy.serialization.msgpack_bytes import MsgpackSerializer
from rocketpy.serialization.serializer import Serializer
from rocketpy.serialization.single import BinarySerializer, StringSerializer

__all__ = ["BinarySerializer", "JsonSerializer", "MsgpackSerializer", "Serializer", "StringSerializer", "serializer"]

_NAMED: dict[str, Serializer] = {
    named.name: named for named in (BinarySerializer(), StringSerializer(), JsonSerializer(), MsgpackSerializer())
}


def serializer(which: str | Serializer) -> Serializer:
    """Return the serializer of a format, by its name "binary", "string", "json" or "msgpack", or one of your own.

    Raises:
        ConfigError: no format has this name, or the object has no `name`, `encode` and `decode`.
    """
    if isinstance(which, str):
        named = _NAMED.get(which)
        if named is None:
            raise ConfigError(f"there is no value format {which!r}; there are {', '.join(_NAMED)}")
        return named
    if not isinstance(which, Serializer):
        raise ConfigError(
            f"a value format is one of {', '.join(_NAMED)}, or an object with name, encode and decode; "
            f"{type(which).__name__} is neither"
        )
    return which
