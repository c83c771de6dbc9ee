"""Messages with values, and what travels instead: copies whose bodies a serializer has made. Pure."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

from rocketpy.message import Message
from rocketpy.serialization.content_types import CONTENT_TYPE, content_type_of, encoded, own_serializers
from rocketpy.serialization.named import serializer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.message import MessageExt
    from rocketpy.serialization.content_types import OwnSerializers
    from rocketpy.serialization.serializer import Serializer

__all__ = ["Values", "give_serializers"]

M = TypeVar("M", bound=Message)


class Values:
    """Serializes the values of one producer's messages. Safe from any thread.

    Args:
        by: The producer's serializer, or the name of a format.
    """

    def __init__(self, by: str | Serializer) -> None:
        self._by = by
        self._loaded: tuple[Serializer, str] | None = None
        self.own: OwnSerializers = () if isinstance(by, str) else own_serializers(by)
        """What reads the values of replies, and of messages whose transactions are asked about."""

    def holds_value(self, given: object) -> bool:
        """Whether it is a message with a value, and no body yet."""
        return isinstance(given, Message) and given.body == b"" and given.has_value

    def filled(self, message: M) -> M:
        """The message itself; of one with a value a copy with that as its body.

        Raises:
            SerializationError: the value cannot be written.
        """
        if not self.holds_value(message):
            return message
        if self._loaded is None:
            by = serializer(self._by)
            self._loaded = by, content_type_of(by)  # replaced as a whole: other threads read it
        by, content_type = self._loaded
        made = copy.copy(message)
        made.body = encoded(message.value, by)
        made.properties = {**message.properties, CONTENT_TYPE: content_type}
        return made


def give_serializers(messages: Iterable[MessageExt], own: OwnSerializers) -> None:
    """Have messages be read by a user's own serializers too."""
    for message in messages:
        message._own = own
