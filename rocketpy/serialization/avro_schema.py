"""Schemas of Avro, parsed by fastavro, which the extra `avro` installs."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import import_module
from typing import Any

from rocketpy.errors import ConfigError

__all__ = ["fastavro", "parsed", "parsed_for_columns"]

_KEPT = ("decimal", "timestamp-millis", "local-timestamp-millis")
"""Logical types that columns get decoded: what they stand for is not the number that is written."""


def fastavro() -> Any:
    """The module fastavro.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module("fastavro")
    except ImportError:
        raise ConfigError(
            "Avro needs the package fastavro, on a driver of Spark and on its executors too: install rocketpy with its "
            "extra, rocketpy[avro]"
        ) from None


@lru_cache(maxsize=64)
def parsed(text: str, name: str = "the schema") -> Any:
    """The schema that a JSON text describes, as fastavro represents it.

    Args:
        text: the JSON.
        name: what an error calls it.

    Raises:
        ConfigError: it is not an Avro schema, or fastavro is not installed.
    """
    return _parsed(text, name, None)


@lru_cache(maxsize=64)
def parsed_for_columns(text: str, name: str = "the schema") -> Any:
    """The same for decoding into columns: dates, UUIDs and most other logical types come as they are written.

    Raises:
        ConfigError: it is not an Avro schema, or fastavro is not installed.
    """
    return _parsed(text, name, _as_written)


def _parsed(text: str, name: str, hook: Any) -> Any:
    library = fastavro()
    try:
        return library.parse_schema(json.loads(text, object_hook=hook))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} is not JSON, as Avro schemas are: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ConfigError(f"{name} is nested too deep") from None
    except Exception as error:  # fastavro raises errors of many types
        said = f"{type(error).__name__}: {error!s:.300}"
        raise ConfigError(f"{name} is not an Avro schema: {said}") from error


def _as_written(member: dict[str, Any]) -> dict[str, Any]:
    if member.get("logicalType") in _KEPT:
        return member
    return {key: value for key, value in member.items() if key != "logicalType"}
