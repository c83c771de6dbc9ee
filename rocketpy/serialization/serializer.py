"""What a serializer is: it makes the bytes of a message's body from a value, and the value from the bytes.

Any object of this shape may be used in place of the four that have names. It has to be stateless, so that threads may
share it, and has to pickle where a Spark job carries it to its executors.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Serializer"]


@runtime_checkable
class Serializer(Protocol):
    """Turns values into bodies and back."""

    @property
    def name(self) -> str:
        """What errors and settings call it. One for producers and consumers has a `content_type` besides: the text
        that says in a message how its body is written, such as ``application/x-protobuf;schema=Order``.
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
            SerializationError: the bytes are not of this format, or pass its bounds.
        """
        ...
