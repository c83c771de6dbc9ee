"""Producers that are connected to brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rocketpy.admin.clients import is_offline, merged
from rocketpy.admin.part import Part
from rocketpy.admin.results.clients import ConnectedClient
from rocketpy.admin.results.times import moment
from rocketpy.client.api import clients as clients_api
from rocketpy.errors import BrokerError, GroupNotFoundError
from rocketpy.wire.names import check_group
from rocketpy.wire.versions import version_text

if TYPE_CHECKING:
    from rocketpy.wire.bodies.groups import ClientConnection, ProducerTableInfo

__all__ = ["Producers"]


class Producers(Part):
    """Connected producers: ``admin.producers``."""

    __slots__ = ()

    async def connections(self, group: str) -> tuple[ConnectedClient, ...]:
        """The connected members of a producer group, sorted by client id.

        Brokers know a producer from its first heartbeat on, which it sends after its first message.

        Raises:
            ConfigError: the group name is not valid.
            GroupNotFoundError: no member is connected to any broker.
            BrokersFailedError: some brokers did not answer; `result` has the answers of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_group(group)
        servers = self._usable()

        async def ask(name: str, address: str) -> list[ClientConnection]:
            try:
                found = await clients_api.producer_connections(
                    servers.client.pool, address, group, timeout=servers.timeout
                )
            except BrokerError as error:
                if is_offline(error):
                    return []
                raise
            return found.connection_set

        masters = await servers.masters()
        found = await servers.each(
            masters, ask, lambda found: merged(group, found), doing=f"asking for the producers of {group}"
        )
        if not found:
            raise GroupNotFoundError(f"no producer of the group {group} is connected to any broker", group=group)
        return found

    async def list(self) -> tuple[ConnectedClient, ...]:
        """All connected producers, sorted by group and client id. Brokers must be of 4.9.3 or later.

        Raises:
            BrokersFailedError: some brokers did not answer; `result` has the answers of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> ProducerTableInfo:
            return await clients_api.all_producers(servers.client.pool, address, timeout=servers.timeout)

        return await servers.each(await servers.masters(), ask, _all, doing="asking for all producers")


def _all(found: dict[str, ProducerTableInfo]) -> tuple[ConnectedClient, ...]:
    clients: dict[tuple[str, str], ConnectedClient] = {}
    for broker, table in found.items():
        for group, producers in table.data.items():
            for each in producers:
                key = group, each.client_id or ""
                known = clients.get(key)
                made = ConnectedClient(
                    client_id=key[1],
                    address=(each.remote_ip or "").removeprefix("/"),
                    group=group,
                    language=each.language.name if each.language is not None else "",
                    version=version_text(each.version),
                    brokers=(broker,),
                    last_heartbeat_at=moment(each.last_update_timestamp),
                )
                clients[key] = made if known is None else _joined(known, made)
    return tuple(clients[key] for key in sorted(clients))


def _joined(one: ConnectedClient, other: ConnectedClient) -> ConnectedClient:
    """Merge two entries of one client, from different brokers."""
    times = [each.last_heartbeat_at for each in (one, other) if each.last_heartbeat_at is not None]
    return attrs.evolve(
        one, brokers=tuple(sorted({*one.brokers, *other.brokers})), last_heartbeat_at=max(times, default=None)
    )
