"""Heartbeats: tell every broker who we are and what we subscribe, regularly and at once when that changes.

A broker knows a client by its connection and forgets it when that closes or is silent for two minutes, so a new
connection wants a heartbeat too. Plays the part of sendHeartbeatToAllBroker in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Sequence
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
"""Seconds until a broker that did not answer hears from a consumer again. As long as it does not know one of several
members, it tells the others that all queues are theirs."""


class Heartbeats:
    """Sends heartbeats for all roles of one client.

    Args:
        pool: where connections come from.
        routes: which brokers there are.
        roles: whom to tell of.
        client_id: who we are.
        interval: seconds between two rounds.
        timeout: seconds that one broker gets to answer.
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
    ) -> None:
        self.versions: dict[str, int] = {}
        """Version of each broker that answered, by address."""
        self._pool = pool
        self._routes = routes
        self._roles = roles
        self._client_id = client_id
        self._interval = interval
        self._timeout = timeout
        self.answering: set[str] = set()
        """Addresses of brokers that answered the last heartbeat they got."""
        self._failing: set[str] = set()
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._greeting: set[str] = set()
        self._wanted = trio.Event()

    def send_soon(self) -> None:
        """Something changed: let the next round begin at once. Many changes make one round."""
        self._wanted.set()

    def connected(self, connection: Connection) -> None:
        """A connection is new. Its peer does not know us yet, unless it is a heartbeat that has it opened."""
        if connection.address not in self._greeting:
            self.send_soon()

    async def run(self) -> None:
        """The service: a round at every interval, and at once when asked; more often to brokers that do not answer."""
        next_round = trio.current_time() + self._interval
        while True:
            deadline = next_round
            if self._failing and self._roles.consumers:
                deadline = min(deadline, trio.current_time() + AGAIN_AFTER)
            with trio.move_on_at(deadline) as waiting:
                await self._wanted.wait()
            if waiting.cancelled_caught and deadline < next_round:
                await self._send_each([target for target in self._targets() if target[1] in self._failing])
                continue
            self._wanted = trio.Event()
            await self.send_all()
            next_round = trio.current_time() + self._interval

    async def send_all(self) -> int:
        """Tell every broker now, all at the same time. Returns how many answered; errors are logged."""
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
        """Every master; slaves too when there is a consumer, which may read from them."""
        slaves = bool(self._roles.consumers)
        return [
            (name, address)
            for name, addresses in self._routes.brokers().items()
            for number, address in addresses.items()
            if slaves or number == MASTER_ID
        ]

    async def _send(self, broker_name: str, address: str, data: HeartbeatData, answered: list[str]) -> None:
        self._greeting.add(address)
        try:
            version = await group_api.heartbeat(self._pool, address, data, timeout=self._timeout)
        except RocketMQError as error:
            # Once a change of state, not once a heartbeat: a broker may be away for hours.
            if address not in self._failing:
                self._seldom.warning(address, "heartbeat to broker %s at %s failed: %s", broker_name, address, error)
            self._failing.add(address)
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
