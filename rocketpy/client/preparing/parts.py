"""Messages put into batches by size, as many in each as fit. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.message import PropertyName
from rocketpy.wire.batch import batch_item_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.message import Message

__all__ = ["parted"]

_ID_SIZE: Final = len(PropertyName.UNIQUE_KEY) + 2 + 56
"""Bytes that a unique id adds to a message at most, the one of an IPv6 address."""


def parted(messages: Iterable[Message], limit: int) -> list[list[Message]]:
    """The messages in their order, in parts that each take at most `limit` bytes as a batch; a larger one is alone."""
    parts: list[list[Message]] = []
    left = 0
    for message in messages:
        size = batch_item_size(message) + _ID_SIZE
        if size > left:
            parts.append([])
            left = limit
        parts[-1].append(message)
        left -= size
    return parts
