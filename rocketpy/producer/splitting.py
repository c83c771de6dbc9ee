"""Batches of a producer that are each small enough to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.client.outgoing import Preparer
    from rocketpy.message import Message

__all__ = ["Splitting"]


class Splitting:
    """What a producer needs to split messages by size."""

    _preparer: Preparer

    def batches(self, messages: Iterable[Message], *, max_size: int | None = None) -> list[list[Message]]:
        """Split messages of one topic, in their order, into batches that `send_batch` takes.

        Nothing is sent: what is wrong with any of them is raised before. Values are serialized here, once. To send
        many messages without their results, `send_many` is quicker.

        Args:
            messages: any number; a message that is too large for a batch of several is one by itself.
            max_size: bytes of a batch as it travels, with all properties; `max_message_size` when None.

        Raises:
            ConfigError: they cannot travel together, or the body of one is larger than `max_message_size`.
            SerializationError: the value of one cannot be written.
        """
        return self._preparer.batches(messages, max_size)
