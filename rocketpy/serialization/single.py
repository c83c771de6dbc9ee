"""The formats for a single value: unchanged bytes, and text in UTF-8."""

from __future__ import annotations

import attrs

from rocketpy.errors import SerializationError
from rocketpy.serialization.plain import scalar_text

__all__ = ["BinarySerializer", "StringSerializer"]


@attrs.frozen
class BinarySerializer:
    """Bytes, unchanged; other types are refused."""

    name: str = attrs.field(default="binary", init=False)
    content_type: str = attrs.field(default="application/octet-stream", init=False)

    def encode(self, value: object) -> bytes:
        """Return the bytes themselves.

        Raises:
            SerializationError: the value is not bytes.
        """
        if type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise SerializationError(
            f"the value has the type {_type(value)}, not bytes: encode it, or choose the format "
            f"{'string' if scalar_text(value) is not None else 'json or msgpack'}"
        )

    def decode(self, body: bytes) -> bytes:
        """Return the bytes themselves."""
        return bytes(body)


@attrs.frozen
class StringSerializer:
    """Text in UTF-8. Numbers, booleans and dates are written as text; decoding always returns text."""

    name: str = attrs.field(default="string", init=False)
    content_type: str = attrs.field(default="text/plain;charset=utf-8", init=False)

    def encode(self, value: object) -> bytes:
        """Return the UTF-8 of a text, a number, a boolean, a date or a duration.

        Raises:
            SerializationError: the value is none of these, or a text with halves of surrogate pairs.
        """
        text = value if type(value) is str else scalar_text(value)
        if text is None:
            raise SerializationError(f"the value has the type {_type(value)}, which is not text: {_advice(value)}")
        try:
            return text.encode()
        except UnicodeEncodeError as exc:
            raise SerializationError(f"the text cannot be written in UTF-8: {exc.reason} at {exc.start}") from None

    def decode(self, body: bytes) -> str:
        """Return the text.

        Raises:
            SerializationError: the bytes are not UTF-8.
        """
        try:
            return str(body, "utf-8")
        except UnicodeDecodeError as exc:
            raise SerializationError(f"the body is not text in UTF-8: {exc.reason} at byte {exc.start}") from None


def _advice(value: object) -> str:
    if value is None:
        return "leave it out, or choose the format json or msgpack"
    if isinstance(value, bytes | bytearray | memoryview):
        return "choose the format binary"
    return "choose the format json or msgpack"


def _type(value: object) -> str:
    return type(value).__name__
