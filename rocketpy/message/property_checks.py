"""What may be a property of a message: checked where a user gives one, whether to a new message or to one there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.errors import ConfigError
from rocketpy.message.property_names import RESERVED_PROPERTIES, PropertyName

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked_text", "put_user_properties"]

_SEPARATORS = frozenset("\x01\x02")
_ARGUMENTS: Final = {
    PropertyName.TAGS: "tags",
    PropertyName.KEYS: "keys",
    PropertyName.SHARDING_KEY: "sharding_key",
    PropertyName.DELAY: "delay_level",
    PropertyName.TIMER_DELAY_MS: "delay",
    PropertyName.TIMER_DELAY_SEC: "delay",
    PropertyName.TIMER_DELIVER_MS: "deliver_at",
    PropertyName.WAIT: "wait_store_ok",
}
"""The arguments of Message that set properties with reserved names."""


def checked_text(what: str, text: object) -> str:
    """Return text that survives the encoding of properties.

    Args:
        what: What the text is, for the error.
        text: The text.

    Raises:
        ConfigError: it is not text, is blank, or has a separator in it.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{what} is of type {type(text).__name__}: give a str")
    if not text or text.isspace():
        raise ConfigError(f"{what} is empty or blank: give a text, or leave it out")
    if not _SEPARATORS.isdisjoint(text):
        raise ConfigError(
            f"{what} contains the control character \\x01 or \\x02, which separates properties: remove it"
        )
    return text


def put_user_properties(wire: dict[str, str], properties: Mapping[str, str]) -> None:
    """Put properties that a user has given among those of a message.

    Raises:
        ConfigError: they are not a dict, a name is reserved, or a name or a value is no text that can be sent. Those
            before it have been put.
    """
    try:
        items = properties.items()
    except AttributeError:
        raise ConfigError(
            f"the properties are of type {type(properties).__name__}: they must be a dict of str to str"
        ) from None
    for name, value in items:
        if checked_text("a property name", name) in RESERVED_PROPERTIES:
            raise _reserved(name)
        wire[name] = checked_text(f"property {name!r}", value)


def _reserved(name: str) -> ConfigError:
    argument = _ARGUMENTS.get(name)
    advice = "choose another" if argument is None else f"make the message with {argument}= instead"
    return ConfigError(f"the property name {name!r} is used by RocketMQ itself: {advice}")
