"""Rows with the columns topic, value, tags, keys and sharding_key, or a function, to messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rocketpy.errors import ConfigError
from rocketpy.message import Message

__all__ = ["RowMapping"]


@attrs.frozen(kw_only=True)
class RowMapping:
    """How a row becomes a message."""

    topic: str | None = None
    columns: Mapping[str, str] = attrs.field(factory=dict)
    value_format: str = "binary"
    function: Callable[[Any], Message | None] | None = None

    def message(self, row: Any) -> Message | None:
        """The message of a row; None when the row has none.

        Raises:
            ConfigError: the row cannot be sent.
        """
        if self.function is not None:
            return self.function(row)
        facts = row.asDict() if hasattr(row, "asDict") else row._asdict() if hasattr(row, "_asdict") else dict(row)
        found = {name: facts.get(self.columns.get(name, name)) for name in ("topic", "tags", "keys", "sharding_key")}
        value = facts.get(self.columns.get("value", "value"))
        if value is None:
            raise ConfigError("the value is null")
        topic = found.pop("topic") or self.topic
        if topic is None:
            raise ConfigError("there is no topic")
        body = value.encode() if isinstance(value, str) and self.value_format == "string" else value
        return Message(topic, body, **{name: text for name, text in found.items() if text})
