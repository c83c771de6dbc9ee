"""What a producer keeps to take a delayed message back before it is due. Plays the part of RecallMessageHandle."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from rocketpy.errors import RemoteProtocolError

__all__ = ["RecallHandle"]

_VERSION = "v1"
_MAX_LENGTH = 2048


class RecallHandle(NamedTuple):
    """Which message, and when it is due."""

    topic: str
    """The topic of the message."""
    broker_name: str
    """Name of the broker that holds it."""
    timestamp: str
    """In ms, one more than the time that was asked for."""
    message_id: str
    """Its unique id."""

    def encode(self) -> str:
        """The text that travels: base64 in the alphabet for addresses."""
        return urlsafe_b64encode(" ".join((_VERSION, *self)).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Read the text.

        Raises:
            RemoteProtocolError: it is no handle, or one of a version that is not known.
        """
        try:
            if len(text) > _MAX_LENGTH or not text.isascii():
                raise ValueError("it is too long, or not ASCII")
            version, *parts = urlsafe_b64decode(text).decode().split(" ")
            if version != _VERSION:
                raise ValueError(f"its version is {version!r:.20}, not {_VERSION!r}")
            if len(parts) != len(cls._fields):
                raise ValueError(f"it has {len(parts)} parts, not {len(cls._fields)}")
        except (ValueError, binascii.Error) as exc:
            raise RemoteProtocolError(f"not a handle to recall a message by: {text!r:.100} ({exc})") from exc
        return cls(*parts)
