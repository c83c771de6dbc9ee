"""Heartbeats: tell every broker the client's groups and subscriptions, regularly and at once when they change.

A broker identifies a client by its connection, and forgets it when the connection closes or is silent for two minutes;
so a new connection needs a heartbeat too. Plays the part of sendHeartbeatToAllBroker in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import group as group_api
from rocketpy.errors import RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.wire.bodies.route import MASTER_ID

if TYPE_CHECKING:
    from rocketpy.client.roles import RoleTable
    from rocketpy.client.routing import RouteTable
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.bodies.heartbeat import HeartbeatData

__all__ = ["Heartbeats"]

logger = get_logger(__name__)

AGAIN_AFTER = 3.0
"""Seconds until a client that brokers must know sends a heartbeat again to one that did not answer. Such a broker may
not know this member, and then leaves it out when it tells others who is in the group, asks about transactions, or
pushes a reply."""


class Heartbeats:
    """Sends heartbeats for all roles of one client.

    Args:
        pool: has the connections.
        routes: knows the brokers.
        roles: the producers and consumers.
        client_id: the client's id.
        interval: seconds between two rounds.
        timeout: seconds that a broker gets to answer.
        is_urgent: returns whether brokers that do not answer get another heartbeat soon; if None, while a role needs to
            be known.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        routes: RouteTable,
        roles: RoleTable,
        client_id: str,
        *,
        interval: float,
        timeout: float,
        is_urgent: Callable[[], object] | None = None,
    ) -> None:
        self.versions: dict[str, int] = {}
        """By address, the version of each broker that answered."""
        self._pool = pool
        self._routes = routes
        self._roles = roles
        self._client_id = client_id
        self._interval = interval
        self._timeout = timeout
        self._is_urgent = is_urgent or (lambda: roles.are_needed)
        self.sent = self.failed = 0
        """Heartbeats since the client was made, and those of them that no broker has answered."""
        self.answering: set[str] = set()
        """The addresses of brokers that answered the last heartbeat sent to them."""
        self._failing: set[str] = set()
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._greeting: set[str] = set()
        self._wanted = trio.Event()
        self._round_ended = trio.Event()

    def send_soon(self) -> None:
        """Send heartbeats at once, because something has changed. Several calls lead to one round."""
        self._wanted.set()

    def connected(self, connection: Connection) -> None:
        """A connection was opened: send heartbeats, unless it was opened for one."""
        if connection.address not in self._greeting:
            self.send_soon()

    async def run(self) -> None:
        """Run the service: a round at every interval and on request, and more often to brokers that do not answer."""
        next_round = trio.current_time() + self._interval
        while True:
            deadline = next_round
            if self._failing and self._is_urgent():
                deadline = min(deadline, trio.current_time() + AGAIN_AFTER)
            with trio.move_on_at(deadline) as waiting:
                await self._wanted.wait()
            if waiting.cancelled_caught and deadline < next_round:
                await self._send_each([target for target in self._targets() if target[1] in self._failing])
                continue
            self._wanted = trio.Event()
            await self.send_all()
            self._round_ended.set()
            self._round_ended = trio.Event()
            next_round = trio.current_time() + self._interval

    def are_told(self, addresses: Iterable[str]) -> bool:
        """Whether each of these brokers has answered a heartbeat over its connection, or failed to."""
        return all(each in self.answering or each in self._failing for each in addresses)

    async def tell(self, addresses: Iterable[str]) -> None:
        """Have these brokers know the client before this returns, as far as they answer. While the service runs."""
        wanted = list(addresses)
        for _ in range(2):  # a round that is under way may have begun without them
            if self.are_told(wanted):
                return
            self.send_soon()
            await self._round_ended.wait()

    async def send_all(self) -> int:
        """Send a heartbeat to every broker, all at the same time. Returns how many answered; errors are logged."""
        return await self._send_each(self._targets())

    async def _send_each(self, targets: Sequence[tuple[str, str]]) -> int:
        data = self._roles.heartbeat(self._client_id)
        if data is None:
            return 0
        answered: list[str] = []
        async with trio.open_nursery() as nursery:
            for broker_name, address in targets:
                nursery.start_soon(self._send, broker_name, address, data, answered)
        known = {address for _, address in self._targets()}
        self._failing &= known
        self.answering &= known
        for address in self.versions.keys() - known:
            del self.versions[address]
        return len(answered)

    def _targets(self) -> list[tuple[str, str]]:
        """Name and address of every master, and of slaves if there is a consumer, which may read from them."""
        slaves = bool(self._roles.consumers)
        return [
            (name, address)
            for name, addresses in self._routes.brokers().items()
            for number, address in addresses.items()
            if slaves or number == MASTER_ID
        ]

    async def _send(self, broker_name: str, address: str, data: HeartbeatData, answered: list[str]) -> None:
        self._greeting.add(address)
        self.sent += 1
        try:
            version = await group_api.heartbeat(self._pool, address, data, timeout=self._timeout)
        except RocketMQError as error:
            # Only the first of several failures in a row is logged: a broker may be away for hours.
            if address not in self._failing:
                self._seldom.warning(address, "heartbeat to broker %s at %s failed: %s", broker_name, address, error)
            self._failing.add(address)
            self.failed += 1
            return
        finally:
            self._greeting.discard(address)
            self.answering.discard(address)
        if address in self._failing:
            logger.warning("broker %s at %s answers heartbeats again", broker_name, address)
            self._failing.discard(address)
        self.answering.add(address)
        self.versions[address] = version
        answered.append(address)
