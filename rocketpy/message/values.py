"""What a message has instead of a value when it has none."""

from __future__ import annotations

import enum
from typing import Final, Literal

__all__ = ["NO_VALUE", "NoValue"]


class NoValue(enum.Enum):
    """The type of `NO_VALUE`. An enumeration, so that it stays itself when it is copied and pickled."""

    NO_VALUE = "no value"

    def __repr__(self) -> str:
        """As signatures show it."""
        return "NO_VALUE"


NO_VALUE: Final[Literal[NoValue.NO_VALUE]] = NoValue.NO_VALUE
"""Stands for a value that was not given. None is a value like any other."""
