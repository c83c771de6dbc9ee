"""Who produces: the clients of every producer group as their heartbeats tell. Plays the part of ProducerManager.

It is not stored: clients register again. Brokers ask these clients about the state of transactions, and push replies to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, cast

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.tables.clients import Memberships

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.tables.clients import Channel, ClientChannel
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.serving.memory import ConnectionCharges

__all__ = ["ProducerTable"]

log = get_logger(__name__)


class ProducerTable:
    """The producer groups that have clients.

    Args:
        config: of the broker.
        clock: the loop's clock, in seconds.
        charges: what is kept for connections counts there; nowhere when None.
    """

    def __init__(
        self, config: BrokerConfig, *, clock: Callable[[], float], charges: ConnectionCharges | None = None
    ) -> None:
        self._config = config
        self._clock = clock
        self._groups: dict[str, dict[Channel, ClientChannel]] = {}
        self._by_id: dict[str, dict[tuple[str, Channel], ClientChannel]] = {}
        """The memberships by client id, in the order in which they began."""
        self._memberships = Memberships(config, charges)
        self._turn = 0

    # --- asking ----------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """The groups that have clients."""
        return list(self._groups)

    def clients(self, group: str) -> list[ClientChannel]:
        """The members with their connections."""
        return list(self._groups.get(group, {}).values())

    def next_live(self, group: str) -> ClientChannel | None:
        """A connected member that reads what it is sent, taking turns; None if there is none."""
        clients = self.clients(group)
        self._turn += 1
        start = self._turn % len(clients) if clients else 0
        for client in clients[start:] + clients[:start]:
            connection = cast("Connection", client.channel)
            if connection.is_open and not connection.is_full:
                return client
        return None

    def find_client(self, client_id: str) -> ClientChannel | None:
        """The client of that id, the one that connected last, whatever its group."""
        found = self._by_id.get(client_id)
        return next(reversed(found.values())) if found else None

    # --- heartbeats ------------------------------------------------------------------------------------

    def register(self, group: str, client: ClientChannel) -> bool:
        """Take in a heartbeat; whether the client is new in the group.

        Raises:
            BrokerError: the group has as many clients as it may have, the client as many groups, or there are too many.
        """
        clients = self._groups.get(group, {})
        known = clients.get(client.channel)
        if known is None and len(clients) >= self._config.max_clients_per_group:
            remark = f"the group has {len(clients)} clients, more are not allowed: raise maxClientsPerGroup"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        if group not in self._groups and len(self._groups) >= self._config.max_groups:
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, "too many producer groups")
        if known is None:
            self._memberships.add(client.channel, group, client.client_id)
        elif known.client_id != client.client_id:
            self._memberships.rename(client.channel, group, client.client_id)
            self._forget_id(group, known)
        client.last_seen = self._clock()
        clients[client.channel] = client
        self._by_id.setdefault(client.client_id, {})[group, client.channel] = client
        self._groups[group] = clients
        if known is None:
            log.info("producer group %s: %s joined", group, client)
        return known is None

    # --- leaving ---------------------------------------------------------------------------------------

    def unregister(self, group: str, channel: Channel) -> bool:
        """A client left the group; whether it was in it."""
        clients = self._groups.get(group, {})
        client = clients.pop(channel, None)
        if client is None:
            return False
        self._forget_id(group, client)
        log.info("producer group %s: %s left", group, client)
        if not clients:
            del self._groups[group]
        self._memberships.discard(channel, group)
        return True

    def _forget_id(self, group: str, client: ClientChannel) -> None:
        """Remove a membership from those of its client id."""
        found = self._by_id[client.client_id]
        del found[group, client.channel]
        if not found:
            del self._by_id[client.client_id]

    def on_close(self, channel: Channel) -> Generator[None, None, None]:
        """A connection ended: its client is out of all its groups. A step for each of them."""
        for name in self._memberships.end(channel):
            self.unregister(name, channel)
            yield

    def scan(self) -> Generator[None, None, list[Channel]]:
        """Drop the clients that have been silent for too long, in steps; returns their connections, to be closed."""
        oldest = self._clock() - self._config.channel_expired_timeout / 1000
        closing: dict[Channel, None] = {}
        for group in self.groups():
            for client in self.clients(group):
                if client.last_seen < oldest:
                    log.warning("producer group %s: %s has sent no heartbeat for too long", group, client)
                    self.unregister(group, client.channel)
                    closing[client.channel] = None
                    yield
            yield
        return list(closing)
