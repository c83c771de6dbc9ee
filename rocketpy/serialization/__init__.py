"""Turns values into the bodies of messages and back: the formats binary, string, json, msgpack and Avro. Pure.

A message's body is always bytes. These formats let users send a value instead, such as a dict or a row of a Spark
DataFrame. Nothing here depends on messages, and nothing unpickles.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rocketpy.serialization.named import serializer
from rocketpy.serialization.serializer import Serializer

if TYPE_CHECKING:
    from rocketpy.serialization.avro_bytes import AvroSerializer
    from rocketpy.serialization.json_text import JsonSerializer
    from rocketpy.serialization.msgpack_bytes import MsgpackSerializer
    from rocketpy.serialization.single import BinarySerializer, StringSerializer

__all__ = [
    "AvroSerializer",
    "BinarySerializer",
    "JsonSerializer",
    "MsgpackSerializer",
    "Serializer",
    "StringSerializer",
    "serializer",
]

_HOMES = {
    "AvroSerializer": "avro_bytes",
    "BinarySerializer": "single",
    "JsonSerializer": "json_text",
    "MsgpackSerializer": "msgpack_bytes",
    "StringSerializer": "single",
}
"""The modules of the names that are loaded on first use."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rocketpy.serialization' has no attribute {name!r}")
    value = getattr(import_module(f"rocketpy.serialization.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
