"""Unpacking of batches that the broker stores whole. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import MessageDecodeError
from rocketpy.wire.inner_batch import has_inner_batch, is_inner_batch, unwrap_inner_batch

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

__all__ = ["good_from", "unwrapped"]


def unwrapped(messages: list[MessageExt], position: int) -> list[MessageExt]:
    """Unpack batches that the broker stores whole. The first of them may begin before `position`, which is left out.

    Raises:
        MessageDecodeError: a batch is damaged; ``decoded`` of the error holds the messages before it, unpacked.
    """
    if not has_inner_batch(messages):
        return messages
    flat: list[MessageExt] = []
    try:
        for message in messages:
            flat += unwrap_inner_batch(message) if is_inner_batch(message) else [message]
    except MessageDecodeError as error:
        error.decoded = tuple(message for message in flat if message.queue_offset >= position)
        raise
    return [message for message in flat if message.queue_offset >= position]


def good_from(messages: list[MessageExt], position: int) -> tuple[list[MessageExt], MessageDecodeError | None]:
    """The messages from `position` on, unpacked, up to the first batch that is damaged; and the error of that one.

    Messages before the position were not asked for: they are done already.
    """
    damage = None
    try:
        messages = unwrapped(messages, position)
    except MessageDecodeError as error:
        messages, error.decoded = list(error.decoded), ()
        damage = error
    if messages and messages[0].queue_offset < position:
        messages = [message for message in messages if message.queue_offset >= position]
    return messages, damage
