"""Clients as the tables of producers and consumers know them, and how many groups they may be in.

Plays the part of ClientChannelInfo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import attrs

from rocketpy.errors import BrokerError
from rocketpy.wire.codes import LanguageCode, ResponseCode

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import ConnectionCharges

__all__ = ["Channel", "ClientChannel", "Memberships", "size_of_membership"]

_BYTES_A_MEMBERSHIP = 192
"""What a connection in a group is reckoned to take, beside the name of the group and the id of the client."""


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


def size_of_membership(group: str, client_id: str) -> int:
    """Bytes that a client in a group is reckoned to take; each heartbeat brings another copy of its id."""
    return _BYTES_A_MEMBERSHIP + len(group) + len(client_id) * (1 if client_id.isascii() else 4)


class Memberships:
    """Which groups each connection is in, within the bounds for one and for all of them.

    Args:
        config: of the broker.
        charges: what is kept for connections counts there; nowhere when None.
    """

    def __init__(self, config: BrokerConfig, charges: ConnectionCharges | None = None) -> None:
        self._config = config
        self._charges = charges
        self._groups: dict[Channel, dict[str, int]] = {}
        """What each membership takes."""
        self._count = 0

    def __len__(self) -> int:
        """Memberships of all connections."""
        return self._count

    def add(self, channel: Channel, group: str, client_id: str) -> None:
        """A connection is in a group from now on, under this id of its client; it was not before.

        Raises:
            BrokerError: it is in as many as it may be, or all connections together are.
        """
        groups = self._groups.get(channel, {})
        if len(groups) >= self._config.max_groups_per_client:
            remark = (
                f"the client is in {len(groups)} groups, more are not allowed: "
                "use more clients, or raise maxGroupsPerClient"
            )
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        if self._count >= self._config.max_memberships:
            remark = f"all clients are in {self._count} groups together, more are not allowed: raise maxMemberships"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        size = size_of_membership(group, client_id)
        self.weigh(channel, size)
        groups[group] = size
        self._groups[channel] = groups
        self._count += 1

    def discard(self, channel: Channel, group: str) -> None:
        """A connection is not in a group any more."""
        groups = self._groups.get(channel)
        if groups is None or group not in groups:
            return
        self.weigh(channel, -groups.pop(group))
        self._count -= 1
        if not groups:
            del self._groups[channel]

    def rename(self, channel: Channel, group: str, client_id: str) -> None:
        """The client of a connection in a group calls itself something else.

        Raises:
            BrokerError: its id must not be kept.
        """
        groups = self._groups.get(channel, {})
        if group in groups:
            size = size_of_membership(group, client_id)
            self.weigh(channel, size - groups[group])
            groups[group] = size

    def weigh(self, channel: Channel, change: int) -> None:
        """So many bytes more, or less, are kept for a connection.

        Raises:
            BrokerError: they must not be kept.
        """
        if self._charges is not None and not self._charges.add(cast("Connection", channel), change):
            remark = "the broker keeps as much for its peers as it may: close idle clients, or raise maxKeptBytes"
            raise BrokerError.for_code(ResponseCode.SYSTEM_BUSY, remark)

    def end(self, channel: Channel) -> list[str]:
        """A connection is in no group any more; returns those that it was in."""
        groups = list(self._groups.pop(channel, ()))
        self._count -= len(groups)
        return groups
