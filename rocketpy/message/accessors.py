"""Typed views on the properties that user code asks for most, shared by Message and MessageExt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.message.property_names import KEY_SEPARATOR, PropertyName

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
    """Reads `properties` under the names of the API."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def properties(self) -> dict[str, str]:
            """All properties under their wire names."""
            ...

    @property
    def tags(self) -> str | None:
        """The tag, for filtering."""
        return self.properties.get(PropertyName.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which the broker finds the message."""
        return split_keys(self.properties.get(PropertyName.KEYS))

    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction that it is sent in, which is its own unique id; None while it has none."""
        return self.properties.get(PropertyName.UNIQUE_KEY)

    @property
    def sharding_key(self) -> str | None:
        """Messages with equal sharding keys go to one queue."""
        return self.properties.get(PropertyName.SHARDING_KEY)

    @property
    def delay_level(self) -> int:
        """Delay level 1 to 18; 0 is none."""
        return int_property(self.properties, PropertyName.DELAY)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the broker answers only when the message is as safe as the broker is configured for."""
        text = self.properties.get(PropertyName.WAIT)
        return text is None or text.lower() == "true"
