"""Splits messages into batches that are small enough to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.client.outgoing import Preparer
    from rocketpy.message import Message

__all__ = ["Splitting"]


class Splitting:
    """Splitting messages by size, as a base class of producers."""

    _preparer: Preparer

    def batches(self, messages: Iterable[Message], *, max_size: int | None = None) -> list[list[Message]]:
        """Split messages of one topic, in their order, into batches for `send_batch`.

        Nothing is sent, and errors of all messages are raised here. Values are encoded here, once. To send many
        messages without their results, `send_many` is faster.

        Args:
            messages: any number of messages. A message that is too large for a batch of several is a batch by itself.
            max_size: the size of an encoded batch in bytes, with all properties; `max_message_size` when None.

        Raises:
            ConfigError: the messages cannot be in one batch, or a body is larger than `max_message_size`.
            SerializationError: a value cannot be encoded.
        """
        return self._preparer.batches(messages, max_size)
