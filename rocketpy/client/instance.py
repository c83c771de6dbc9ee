"""MQClientInstance: what the producers and consumers of one client share.

It owns the connections, the list of name servers, the routes and the heartbeats, and the tasks that keep them fresh.
Every producer or consumer has one of its own unless it gets one with `client=`; nothing is shared implicitly. It knows
nothing of sending or consuming. Plays the part of MQClientInstance and MQClientManager.

It closes in this order: roles start nothing new; roles leave their groups at the brokers; services end; connections
close.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, Unpack

import trio

from rocketpy.client.api import group as group_api
from rocketpy.client.callbacks import Callbacks
from rocketpy.client.client_id import new_client_id
from rocketpy.client.data_links import DataLinks
from rocketpy.client.driving import drive
from rocketpy.client.heartbeat import Heartbeats
from rocketpy.client.lifecycle import Lifecycle
from rocketpy.client.name_server import NameServers
from rocketpy.client.requests import Requests
from rocketpy.client.roles import ConsumerRole, ProducerRole, RoleTable
from rocketpy.client.routes.routing import RouteTable
from rocketpy.client.runnable import Runnable
from rocketpy.client.statistics import ClientStatistics, statistics
from rocketpy.client.transactions import pass_checks_on
from rocketpy.config import ClientConfig
from rocketpy.errors import ConfigError, RocketMQError, ServiceCrashedError
from rocketpy.logs import get_logger
from rocketpy.remoting.network import TcpNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.services import heard, in_service, open_services, ticks

if TYPE_CHECKING:
    from rocketpy.config.typed import ClientSettings
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.network import Network

__all__ = ["MQClientInstance"]

logger = get_logger(__name__)


class Flushed(Protocol):
    """What gathers something that is to be sent before the client closes."""

    async def flush(self) -> None:
        """Send it, and wait until that has ended."""
        ...


class MQClientInstance(Runnable):
    """A client: ``async with MQClientInstance(namesrv="127.0.0.1:9876") as client:``.

    Args:
        config: the settings; from the settings of a producer or consumer, those of clients are taken.
        network: where connections come from.
        hooks: see every request and every answer.
        fields: settings by name, over those of `config`.

    Attributes:
        crash: the bug in one of its services that ended the client, None if none did.
        tracing: what gathers trace records, by the topic that they go to.

    Raises:
        ConfigError: a setting cannot be used, or no name server is known.
    """

    _services: trio.Nursery | None = None

    def __init__(
        self,
        config: ClientConfig | None = None,
        *,
        network: Network | None = None,
        hooks: Sequence[RequestHook] = (),
        **fields: Unpack[ClientSettings],
    ) -> None:
        self._made_with = {"config": config, "network": network, "hooks": hooks, **fields}
        self.config = ClientConfig.of(config, **fields)
        self.network = _checked_network(network)
        self.client_id = new_client_id(self.config, self.network.local_ip())
        self.roles = RoleTable()
        self.callbacks = Callbacks()
        drive(self.callbacks, self.roles)
        pass_checks_on(self.callbacks, self.roles)
        self.requests = Requests(self.callbacks)
        self.pool = ConnectionPool(
            self.network,
            handler=self.callbacks,
            hooks=self._with_signing(hooks),
            connect_timeout=self.config.connect_timeout,
            idle_timeout=self.config.idle_timeout,
            serialize_type=self.config.serialize_type,
            on_open=self._connected,
        )
        self.has_hooks_of_users = bool(hooks)
        self.data_links = DataLinks(self.pool)
        self.name_servers = NameServers(self.config.namesrv, self.pool, timeout=self.config.request_timeout)
        self.routes = RouteTable(
            self.name_servers,
            timeout=self.config.request_timeout,
            address_map=self.config.address_map,
            on_change=self._route_changed,
        )
        self.heartbeats = Heartbeats(
            self.pool,
            self.routes,
            self.roles,
            self.client_id,
            interval=self.config.heartbeat_broker_interval,
            timeout=self.config.request_timeout,
            is_urgent=self._is_waited_for,
        )
        self.tracing: dict[str, Flushed] = {}
        self.crash: ServiceCrashedError | None = None
        self._addresses: frozenset[str] = frozenset()
        self._lifecycle = Lifecycle(f"client {self.client_id}")
        self._stack: AsyncExitStack | None = None
        self._hang_up = trio.Event()

    def _with_signing(self, hooks: Sequence[RequestHook]) -> Sequence[RequestHook]:
        """The hooks, followed by the one that signs requests if the settings have keys."""
        credentials = self.config.credentials
        if credentials is None:
            return hooks
        from rocketpy.remoting.signing import SigningHook

        return (*hooks, SigningHook(credentials))

    def __repr__(self) -> str:
        """Short form for logs."""
        return f"<MQClientInstance {self.client_id} {self._lifecycle.shown.value}>"

    def reopen(self) -> Self:
        """Make the client new in the child of a fork: ``async with client.reopen():``. Then reopen what shares it.

        Raises:
            ClientClosedError: this is the process in which it was made.
        """
        self._make_again(crossed_fork=self._lifecycle.crossed_fork)
        return self

    # --- life -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the client. Name servers need not be reachable yet; the first request for a route finds out.

        Raises:
            ClientClosedError: it was opened before.
        """
        self._lifecycle.begin()
        try:
            async with AsyncExitStack() as stack:
                nursery = await stack.enter_async_context(open_services())
                await nursery.start(self._run)
                self._stack = stack.pop_all()
        except BaseException:  # cancellation too: a client that did not start may be started again
            self._lifecycle.failed()
            raise
        self._lifecycle.opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close the client; its groups are left within `close_timeout`."""
        stack, self._stack = self._stack, None
        if stack is None or not self._lifecycle.closing():
            return None
        try:
            if not self._lifecycle.crossed_fork:
                for role in self.roles:
                    role.client_closing()
                self.requests.end()
                with trio.CancelScope(deadline=trio.current_time() + self.config.close_timeout, shield=True):
                    for each in list(self.tracing.values()):
                        await each.flush()
                    await self._leave_all()
        finally:
            self._hang_up.set()
            try:
                suppress = await stack.__aexit__(kind, error, traceback)
            finally:  # it is closed after a cancellation too
                self._lifecycle.closed()
        return suppress

    @trio.lowlevel.enable_ki_protection
    async def _run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run connections and services until `_hang_up`.

        They live in a task of their own and behind a shield, because the code that uses a client may be cancelled as a
        whole, and offsets can be committed and groups left only if the connections outlive that. The shield ends with
        the closing code in `__aexit__`, which has a deadline. A start that is cancelled stops at the checkpoint before
        the shield.
        """
        with heard(f"client {self.client_id}", self._note_crash), trio.CancelScope() as scope:
            async with self.pool.open(), trio.open_nursery() as services:
                services.start_soon(self._route_service)
                services.start_soon(self.heartbeats.run)
                services.start_soon(self.data_links.run)
                services.start_soon(self.callbacks.run)
                self._services = services
                task_status.started()
                await trio.lowlevel.checkpoint_if_cancelled()
                scope.shield = True
                await self._hang_up.wait()
                services.cancel_scope.cancel()

    @property
    def services(self) -> trio.Nursery:
        """The nursery of what serves all roles; it ends when the client closes.

        Raises:
            ClientClosedError: the client is not open.
        """
        self.check_open()
        assert self._services is not None
        return self._services

    def _note_crash(self, crash: ServiceCrashedError) -> None:
        """Stop the roles that share the client: the exception may be raised far from their code."""
        self.crash = crash
        for role in self.roles:
            role.client_closing()

    @property
    def is_open(self) -> bool:
        """Whether it may be used, in this process."""
        return self._lifecycle.is_open

    def check_open(self) -> None:
        """Refuse use when the client is not open.

        Raises:
            ClientClosedError: it is not open, or was opened before a fork.
        """
        self._lifecycle.check_open()

    def check_here(self) -> None:
        """Refuse use from another loop than the client's.

        Raises:
            ClientClosedError: it is not open, or was opened before a fork.
            ConfigError: this is another loop than the one in which it was entered.
        """
        self._lifecycle.check_here()

    # --- figures --------------------------------------------------------------------------------------

    def statistics(self) -> ClientStatistics:
        """Counts of its connections and requests. Thread-safe, and works in every state."""
        return statistics(self.pool, self.data_links, self.routes, self.heartbeats, self.requests)

    # --- roles ----------------------------------------------------------------------------------------

    def register_producer(self, group: str, role: ProducerRole) -> None:
        """Add a producer, and send heartbeats at once.

        Raises:
            ConfigError: this client has a producer of that group.
            ClientClosedError: the client is not open.
        """
        self.check_open()
        self.roles.add_producer(group, role)
        self.heartbeats.send_soon()

    def register_consumer(self, group: str, role: ConsumerRole) -> None:
        """Add a consumer, and send heartbeats at once.

        Raises:
            ConfigError: this client has a consumer of that group.
            ClientClosedError: the client is not open.
        """
        self.check_open()
        self.roles.add_consumer(group, role)
        self.heartbeats.forget(group)
        self.heartbeats.send_soon()

    async def unregister_producer(self, group: str) -> None:
        """Remove a producer, and leave its group at every connected broker. Errors are logged."""
        if self.roles.producers.pop(group, None) is not None:
            await self._leave(producer_group=group)

    async def unregister_consumer(self, group: str) -> None:
        """Remove a consumer, and leave its group at every connected broker. Errors are logged."""
        if self.roles.consumers.pop(group, None) is not None:
            await self._leave(consumer_group=group)

    async def _leave_all(self) -> None:
        """Leave the groups of roles that are still registered."""
        for group in list(self.roles.consumers):
            await self.unregister_consumer(group)
        for group in list(self.roles.producers):
            await self.unregister_producer(group)

    async def _leave(self, *, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        @trio.lowlevel.enable_ki_protection
        async def tell(address: str) -> None:
            try:
                await group_api.unregister(
                    self.pool,
                    address,
                    self.client_id,
                    producer_group=producer_group,
                    consumer_group=consumer_group,
                    timeout=self.config.request_timeout,
                )
            except RocketMQError as error:
                logger.info("broker %s was not notified that this client leaves: %s", address, error)

            left.discard(address)

        # A broker identifies a client by its connection: without a connection there is nothing to leave.
        left = {address for address in self._known_addresses() if self.pool.nowait(address) is not None}
        try:
            with in_service():
                async with trio.open_nursery() as nursery:
                    for address in sorted(left):
                        nursery.start_soon(tell, address)
        finally:
            if left:  # the time was up
                logger.warning(
                    "%s closes, and these brokers did not confirm the unregistration in time: %s",
                    producer_group or consumer_group,
                    ", ".join(sorted(left)),
                )

    # --- keeping fresh ---------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _route_service(self) -> None:
        """Refresh the routes of all topics in use at every interval, and forget brokers that are gone."""
        async for _ in ticks(self.config.poll_name_server_interval):
            await self.routes.refresh_all(self.roles.topics())
            for address in self.routes.clean_offline_brokers():
                self.pool.discard(address)

    def _known_addresses(self) -> frozenset[str]:
        return frozenset(a for addresses in self.routes.brokers().values() for a in addresses.values())

    def _connected(self, connection: Connection) -> None:
        """A new connection to a broker needs a heartbeat; one to a name server does not."""
        self.heartbeats.versions.pop(connection.address, None)  # another broker may have this address by now
        if connection.address in self._addresses:
            self.heartbeats.connected(connection)
            connection.add_close_callback(self._disconnected)

    def _disconnected(self, connection: Connection) -> None:
        """Reconnect with a heartbeat, if brokers must know this client.

        A broker tells other members to take over the queues of a lost client, does not ask it about transactions, and
        cannot push replies to it.
        """
        self.heartbeats.answering.discard(connection.address)
        if self._is_waited_for() and connection.address in self._addresses:
            self.heartbeats.send_soon()

    def _is_waited_for(self) -> bool:
        """Whether brokers may send something to this client at any time."""
        return self.roles.are_needed or len(self.requests) > 0

    def _route_changed(self, topic: str) -> None:
        addresses = self._known_addresses()
        if addresses - self._addresses:
            self.heartbeats.send_soon()
        self._addresses = addresses
        for role in self.roles:
            role.on_route_changed(topic)


def _checked_network(network: Network | None) -> Network:
    """The network, TCP when None."""
    if network is not None and not callable(getattr(network, "local_ip", None)):
        raise ConfigError(f"network must be a Network, such as TcpNetwork(), not {network!r:.100}")
    return network if network is not None else TcpNetwork()
