"""The values of messages, and `NO_VALUE`, which stands for a value that was not given."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Literal

from rocketpy.message.accessors import PropertyAccessors

__all__ = ["NO_VALUE", "NoValue", "Valued"]


class NoValue(enum.Enum):
    """The type of `NO_VALUE`. An enumeration, so that it stays itself when it is copied and pickled."""

    NO_VALUE = "no value"

    def __repr__(self) -> str:
        """As signatures show it."""
        return "NO_VALUE"


NO_VALUE: Final[Literal[NoValue.NO_VALUE]] = NoValue.NO_VALUE
"""Stands for a value that was not given. None is a value like any other."""


class Valued(PropertyAccessors):
    """The value of a message, as a base class. A message with a body leaves it unset, which costs nothing."""

    __slots__ = ("_value",)

    _value: Any

    if TYPE_CHECKING:
        body: bytes

    @property
    def has_value(self) -> bool:
        """Whether the message has a value instead of a body."""
        return hasattr(self, "_value")

    @property
    def value(self) -> Any:
        """The value that was given, or the body if there was none."""
        return self._value if self.has_value else self.body
