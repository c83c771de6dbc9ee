"""What consumers and producers have in common: merging the members of a group on several brokers into one list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy.admin.results.clients import ConnectedClient
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.versions import version_text

if TYPE_CHECKING:
    from rocketpy.errors import BrokerError
    from rocketpy.wire.bodies.groups import ClientConnection

__all__ = ["is_offline", "merged"]

_OFFLINE = (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SYSTEM_ERROR)


def is_offline(error: BrokerError) -> bool:
    """Whether the code of an answer means that no member of a group is connected to the broker."""
    return error.code in _OFFLINE


def merged(group: str, connections: Mapping[str, Iterable[ClientConnection]]) -> tuple[ConnectedClient, ...]:
    """The clients of a group, sorted by id, each with the brokers that it is connected to.

    Args:
        group: the group.
        connections: the connections to each broker, by its name.
    """
    first: dict[str, ClientConnection] = {}
    brokers: dict[str, list[str]] = {}
    for broker, clients in connections.items():
        for each in clients:
            client_id = each.client_id or ""
            first.setdefault(client_id, each)
            brokers.setdefault(client_id, []).append(broker)
    return tuple(
        ConnectedClient(
            client_id=client_id,
            address=each.client_addr or "",
            group=group,
            language=each.language.name if each.language is not None else "",
            version=version_text(each.version),
            brokers=tuple(sorted(brokers[client_id])),
        )
        for client_id, each in sorted(first.items())
    )
