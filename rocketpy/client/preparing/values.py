"""Messages with values, which are sent as copies whose bodies a serializer has encoded. Pure."""

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
    """Serializes the values of one producer's messages. Thread-safe.

    Args:
        by: The producer's serializer, or the name of a format.
    """

    def __init__(self, by: str | Serializer) -> None:
        self._by = by
        self._loaded: tuple[Serializer, str] | None = None
        self.own: OwnSerializers = () if isinstance(by, str) else own_serializers(by)
        """Serializers that read the values of replies, and of half messages that a broker checks."""

    def holds_value(self, given: object) -> bool:
        """Whether this is a message with a value and without a body."""
        return isinstance(given, Message) and given.body == b"" and given.has_value

    def filled(self, message: M) -> M:
        """Return the message itself, or if it has a value, a copy with the encoded value as its body.

        Raises:
            SerializationError: the value cannot be encoded.
        """
        if not self.holds_value(message):
            return message
        if self._loaded is None:
            by = serializer(self._by)
            self._loaded = by, content_type_of(by)  # replaced as a whole: other threads read it
        by, content_type = self._loaded
        made = copy.copy(message)
        made.body = encoded(message.value, by)
        made.wire_properties = {**message.wire_properties, CONTENT_TYPE: content_type}
        return made


def give_serializers(messages: Iterable[MessageExt], own: OwnSerializers) -> None:
    """Let messages decode their values with a user's own serializers too."""
    for message in messages:
        message._own = own
