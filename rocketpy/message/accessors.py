"""RocketMQ's own properties, which Message and MessageExt give as a mapping, and the most wanted of them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.message.property_names import KEY_SEPARATOR, PropertyName
from rocketpy.message.property_views import SystemProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PropertyAccessors", "int_property", "split_keys"]


def split_keys(text: str | None) -> tuple[str, ...]:
    """The keys in the text of the property KEYS."""
    if not text:
        return ()
    if KEY_SEPARATOR not in text:
        return (text,)
    return tuple([key for key in text.split(KEY_SEPARATOR) if key])


def int_property(properties: Mapping[str, str], name: str, default: int = 0) -> int:
    """A numeric property; `default` when it is missing or is no number, for the peer may have written anything."""
    text = properties.get(name)
    if text is None or len(text) > 20:
        return default
    try:
        return int(text)
    except ValueError:
        return default


class PropertyAccessors:
    """Reads `wire_properties` under the names of the API."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def wire_properties(self) -> dict[str, str]:
            """All properties by their names on the wire."""
            ...

    @property
    def system_properties(self) -> SystemProperties:
        """RocketMQ's own properties, as a mapping by their names on the wire, which cannot be changed.

        These are the names that a user's property may not have (`RESERVED_PROPERTIES`): those of Java's client, those
        that only clients and brokers write, such as `__transactionId__`, and those that an argument of Message sets,
        such as `__SHARDINGKEY`. Names that programs set themselves to tell RocketMQ something are on the user's side:
        `CHECK_IMMUNITY_TIME_IN_SECONDS`, `INNER_MULTI_DISPATCH` and `TRACE_CONTEXT`. So is what this library adds for
        programs to read: `contentType` and the context of a trace.
        """
        return SystemProperties(self.wire_properties)

    @property
    def tags(self) -> str | None:
        """The tag, for filtering."""
        return self.wire_properties.get(PropertyName.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which the broker finds the message."""
        return split_keys(self.wire_properties.get(PropertyName.KEYS))

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction that it is sent in, which is its own unique id; None while it has none."""
        return self.wire_properties.get(PropertyName.UNIQUE_KEY)

    @property
    def sharding_key(self) -> str | None:
        """Messages with equal sharding keys go to one queue."""
        return self.wire_properties.get(PropertyName.SHARDING_KEY)

    @property
    def delay_level(self) -> int:
        """Delay level 1 to 18; 0 is none."""
        return int_property(self.wire_properties, PropertyName.DELAY)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the broker answers only when the message is as safe as the broker is configured for."""
        text = self.wire_properties.get(PropertyName.WAIT)
        return text is None or text.lower() == "true"
