"""Makes rows of what the calls of Admin return: plain values for JSON, under names in Java's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["java_name", "row"]


def java_name(name: str) -> str:
    """A name as Java spells it: ``read_queues`` as ``readQueues``."""
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def row(found: Any, *properties: str) -> dict[str, Any]:
    """A result as a row: its fields, and some of its properties.

    Times become milliseconds since 1970, as servers have them, and queues their topic, broker and number.
    """
    import attrs

    names = [each.name for each in attrs.fields(type(found))]
    rows: dict[str, Any] = {}
    for name in (*names, *properties):
        value = getattr(found, name)
        rows |= _queue(value) if name == "queue" else {java_name(name): _plain(value)}
    return rows


def _queue(queue: Any) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queueId": queue.queue_id}


def _plain(value: Any) -> Any:
    from datetime import datetime
    from enum import Enum

    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Exception):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(each) for each in value]
    return row(value) if hasattr(value, "__attrs_attrs__") else value
