"""The named formats, each loaded on first use, because most programs use one of them or none."""

from __future__ import annotations

from rocketpy.errors import ConfigError
from rocketpy.serialization.serializer import Serializer

__all__ = ["serializer"]

_NAMES = ("binary", "string", "json", "msgpack")
_NAMED: dict[str, Serializer] = {}
"""The serializers that are loaded."""


def serializer(which: str | Serializer) -> Serializer:
    """Return the serializer of a format, by its name "binary", "string", "json" or "msgpack", or one of your own.

    Raises:
        ConfigError: no format has this name, or the object has no `name`, `encode` and `decode`.
    """
    if isinstance(which, str):
        if which == "avro":
            raise ConfigError(
                "the value format avro needs a schema: give AvroSerializer(schema), of rocketpy.serialization"
            )
        if which not in _NAMES:
            raise ConfigError(f"there is no value format {which!r:.100}; the formats are {', '.join(_NAMES)}")
        named = _NAMED.get(which)
        return _load(which) if named is None else named
    given: object = which
    if isinstance(given, type) or not isinstance(given, Serializer):
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise ConfigError(
            f"a value format is one of {', '.join(_NAMES)}, or an object with name, encode and decode; "
            f"{kind} is neither"
        )
    return which


def _load(name: str) -> Serializer:
    if name == "json":
        from rocketpy.serialization.json_text import JsonSerializer

        made: Serializer = JsonSerializer()
    elif name == "msgpack":
        from rocketpy.serialization.msgpack_bytes import MsgpackSerializer

        made = MsgpackSerializer()
    else:
        from rocketpy.serialization.single import BinarySerializer, StringSerializer

        made = BinarySerializer() if name == "binary" else StringSerializer()
    return _NAMED.setdefault(name, made)
