"""Heartbeats: tell every broker the client's groups and subscriptions, regularly and at once when they change.

A broker identifies a client by its connection, and forgets it when the connection closes or is silent for two minutes;
so a new connection needs a heartbeat too. Plays the part of sendHeartbeatToAllBroker in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import group as group_api
from rocketpy.errors import BrokerError, RocketMQError
from rocketpy.logs import Seldom, get_logger
from rocketpy.services import side_by_side
from rocketpy.wire.bodies.heartbeat import HeartbeatData
from rocketpy.wire.bodies.route import MASTER_ID

if TYPE_CHECKING:
    from rocketpy.client.roles import RoleTable
    from rocketpy.client.routes.routing import RouteTable
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["Heartbeats"]

logger = get_logger(__name__)

AGAIN_AFTER = 3.0
"""Seconds until a client that brokers must know sends a heartbeat again to one that did not answer. Such a broker may
not know this member, and then leaves it out when it tells others who is in the group, asks about transactions, or
pushes a reply."""
AT_ONCE = 8
"""Heartbeats for single groups that are under way at the same time, after one for all of them was refused."""


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
        self.watchers: set[Callable[[str, str, int], None]] = set()
        """Called with the name, address and version of each broker that answers."""
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
        self._refused: dict[str, dict[str, BrokerError]] = {}
        """By address and consumer group, why a broker refused the last heartbeat that it answered. Values are replaced,
        never changed, so that any thread may look."""
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

    def forget(self, group: str) -> None:
        """A consumer group begins: what brokers said of an earlier one does not count."""
        for address, refused in list(self._refused.items()):
            self._refused[address] = {name: error for name, error in refused.items() if name != group}

    def refusals(self, group: str, topics: Iterable[str]) -> dict[str, BrokerError]:
        """By topic, why one of its brokers does not accept a consumer group in heartbeats. Thread-safe."""
        if not self._refused:
            return {}
        found = {}
        for topic in topics:
            errors = [error for error in self._refusals(group, topic) if error is not None]
            if errors:
                found[topic] = errors[0]
        return found

    def refused_everywhere(self, group: str, topics: Iterable[str]) -> BrokerError | None:
        """Why no broker of these topics accepts a consumer group, None if one may still do so by itself."""
        errors = [error for topic in topics for error in self._refusals(group, topic)]
        lasting = [error for error in errors if error is not None and not error.retriable]
        return lasting[0] if lasting and len(lasting) == len(errors) else None

    def _refusals(self, group: str, topic: str) -> list[BrokerError | None]:
        """What each broker of a topic has against a group."""
        route = self._routes.route(topic)
        names = sorted(route.brokers) if route is not None else []
        addresses = [self._routes.broker_address(name, master=False) for name in names]
        return [self._refused.get(address, {}).get(group) for address in addresses if address is not None]

    @trio.lowlevel.enable_ki_protection
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
        """Return once these brokers have got a heartbeat, or have failed to answer it. While the service runs."""
        wanted = list(addresses)
        for _ in range(2):  # the current round may have started without these brokers
            if self.are_told(wanted):
                return
            self.send_soon()
            await self._round_ended.wait()

    async def send_all(self) -> int:
        """Send a heartbeat to every broker, all at the same time. Returns how many answered; errors are logged."""
        return await self._send_each(self._targets())

    async def _send_each(self, targets: Sequence[tuple[str, str]]) -> int:
        if not self._roles.producers and not self._roles.consumers:
            return 0
        answered: list[str] = []
        async with trio.open_nursery() as nursery:
            for broker_name, address in targets:
                nursery.start_soon(self._send, broker_name, address, answered)
        known = {address for _, address in self._targets()}
        self._failing &= known
        self.answering &= known
        for address in self.versions.keys() - known:
            del self.versions[address]
        for address in self._refused.keys() - known:
            del self._refused[address]
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

    @trio.lowlevel.enable_ki_protection
    async def _send(self, broker_name: str, address: str, answered: list[str]) -> None:
        self._greeting.add(address)
        self.sent += 1
        try:
            # Two rounds may wait for one connection, and go on in any order: what they say is looked up after that, or
            # the broker might hear the new subscriptions first, and forget them with the old ones.
            deadline = trio.current_time() + self._timeout
            await self._pool.get(address, timeout=self._timeout)
            data = self._roles.heartbeat(self._client_id)
            if data is None:
                return
            version = await self._tell(broker_name, address, data, deadline)
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
        for watcher in tuple(self.watchers):
            watcher(broker_name, address, version)
        answered.append(address)

    async def _tell(self, broker_name: str, address: str, data: HeartbeatData, deadline: float) -> int:
        """Send a heartbeat to one broker, or one for each group if it refuses that. Returns the broker's version.

        Raises:
            BrokerError: the broker refuses all groups, or is too busy for some of them.
            TransportError, RequestTimeoutError: it does not answer.
        """
        try:
            left = max(0.001, deadline - trio.current_time())
            version = await group_api.heartbeat(self._pool, address, data, timeout=left)
        except BrokerError as error:
            return await self._tell_apart(broker_name, address, data, error)
        self._refused.pop(address, None)
        return version

    async def _tell_apart(self, broker_name: str, address: str, data: HeartbeatData, error: BrokerError) -> int:
        """Find out which groups a broker refuses, and note them; the others stay registered with it.

        Raises:
            BrokerError: the broker refuses all groups, or is too busy for some of them.
        """
        parts = _parts(data)
        refused: dict[str, BrokerError] = {}
        versions: list[int] = []

        async def tell(part: HeartbeatData) -> None:
            try:
                versions.append(await group_api.heartbeat(self._pool, address, part, timeout=self._timeout))
            except BrokerError as exc:
                refused.update((consumer.group_name, exc) for consumer in part.consumer_data_set)
            except RocketMQError as exc:
                logger.debug("a heartbeat for one group to %s failed: %s", address, exc)

        if len(parts) == 1:
            refused = {consumer.group_name: error for consumer in data.consumer_data_set}
        else:
            with trio.move_on_after(self._timeout):
                await side_by_side(tell, parts, at_once=AT_ONCE)
        before = self._refused.get(address, {})
        self._refused[address] = refused
        if not versions or any(each.retriable for each in refused.values()):
            raise error
        for group, each in refused.items():
            if str(each) != str(before.get(group)):
                logger.warning("broker %s refuses heartbeats for the group %s: %s", broker_name, group, each)
        return versions[0]


def _parts(data: HeartbeatData) -> list[HeartbeatData]:
    """A heartbeat for all producers, and one for each consumer."""
    parts = [HeartbeatData(client_id=data.client_id, consumer_data_set=[each]) for each in data.consumer_data_set]
    if data.producer_data_set:
        parts.append(HeartbeatData(client_id=data.client_id, producer_data_set=data.producer_data_set))
    return parts
