"""Unpacking of batches that the broker stores whole. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.wire.inner_batch import has_inner_batch, is_inner_batch, unwrap_inner_batch

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

__all__ = ["unwrapped"]


def unwrapped(messages: list[MessageExt], position: int) -> list[MessageExt]:
    """Unpack batches that the broker stores whole. The first of them may begin before `position`, which is left out."""
    if not has_inner_batch(messages):
        return messages
    flat: list[MessageExt] = []
    for message in messages:
        flat += unwrap_inner_batch(message) if is_inner_batch(message) else [message]
    return [message for message in flat if message.queue_offset >= position]
