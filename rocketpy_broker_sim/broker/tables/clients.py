"""A client as the tables of producers and consumers know it. Plays the part of ClientChannelInfo."""

from __future__ import annotations

from typing import Protocol

import attrs

from rocketpy.wire.codes import LanguageCode

__all__ = ["Channel", "ClientChannel"]


class Channel(Protocol):
    """A connection, of which the tables only ask who it is. They compare connections by identity."""

    @property
    def address(self) -> str:
        """The peer as "host:port"."""
        ...


@attrs.define(eq=False)
class ClientChannel:
    """A client on one connection.

    Attributes:
        channel: The connection.
        client_id: What the client calls itself.
        language: As its frames say; None when they name one that we do not know.
        version: Ordinal of its version, as its frames say.
        last_seen: Time of its last heartbeat, on the loop's clock.
    """

    channel: Channel
    client_id: str
    language: LanguageCode | None = None
    version: int = 0
    last_seen: float = 0.0

    def __str__(self) -> str:
        """Short form for logs; the id is the client's own text."""
        return f"{self.client_id[:256]!r} at {self.channel.address}"
