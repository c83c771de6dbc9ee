"""Finds what is wrong with a message whose attributes were replaced after it was made. Pure.

Sends do not check the type of each attribute, because every message would pay for that. When a send fails because of a
wrong type, `check_types` finds the attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rocketpy.errors import ConfigError
from rocketpy.message import Message

__all__ = ["check_flag", "check_types", "explaining"]


def check_types(message: object) -> None:
    """Refuse a message with a topic, `wire_properties` or a flag that cannot be sent. Does nothing to anything else.

    Raises:
        ConfigError: one of them has the wrong type.
    """
    if not isinstance(message, Message):
        return
    topic: object = message.topic
    properties: Any = message.wire_properties
    if not isinstance(topic, str):
        raise ConfigError(f"the topic of a message was replaced by an object of type {_type(topic)}: it must be a str")
    if not isinstance(properties, dict):
        raise ConfigError(
            f"the wire_properties of a message to {topic:.255} were replaced by an object of type "
            f"{_type(properties)}: they must be a dict of str to str"
        )
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise ConfigError(
                f"the property {name!r:.100} of a message to {topic:.255} is of type {_type(value)}: the name and the "
                "value of a property must be str"
            )
    check_flag(message.flag)


@contextmanager
def explaining(messages: Iterable[object]) -> Iterator[None]:
    """If the block fails because an attribute of one of these messages has the wrong type, say which.

    Raises:
        ConfigError: an attribute has the wrong type.
    """
    try:
        yield
    except (AttributeError, TypeError):
        for message in messages:
            check_types(message)
        raise


def check_flag(flag: object) -> None:
    """Refuse an object that cannot be the flag of a message.

    Raises:
        ConfigError: it is not a whole number of 32 bits.
    """
    if not isinstance(flag, int) or isinstance(flag, bool) or not -(2**31) <= flag < 2**31:
        raise ConfigError(f"the flag of a message is a whole number from -2**31 to 2**31 - 1, not {flag!r:.100}")


def _type(value: object) -> str:
    return type(value).__name__
