"""The protocol of serializers, which encode values as the bodies of messages and decode them.

Any object with this interface can be used instead of the four named formats. It must be stateless, because threads
share it, and picklable if a Spark job sends it to its executors.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Serializer"]


@runtime_checkable
class Serializer(Protocol):
    """Turns values into bodies and back."""

    @property
    def name(self) -> str:
        """The name for errors and settings.

        Serializers for producers and consumers also need a `content_type`, the text that says in a message how its body
        is written, such as ``application/x-protobuf;schema=Order``.
        """
        ...

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value.

        Raises:
            SerializationError: the value, or something inside it, cannot be written in this format.
        """
        ...

    def decode(self, body: bytes) -> object:
        """Return the value that the bytes stand for.

        Raises:
            SerializationError: the bytes are not in this format, or exceed its bounds.
        """
        ...
