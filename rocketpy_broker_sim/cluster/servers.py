"""ClusterServers: the name servers and brokers of a cluster, each in a slot, and how they start and stop together."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from rocketpy.errors import ClientClosedError, ConfigError, RequestTimeoutError
from rocketpy.services import open_services
from rocketpy.wire.hosts import parse_address
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.cluster.arguments import check_number, check_slot
from rocketpy_broker_sim.cluster.calendar import calendar
from rocketpy_broker_sim.cluster.ground import storage_of
from rocketpy_broker_sim.cluster.news import News
from rocketpy_broker_sim.cluster.server_slot import ServerSlot
from rocketpy_broker_sim.cluster.settings import broker_names, broker_settings, name_server_settings, show_metrics
from rocketpy_broker_sim.faults import SendFaults
from rocketpy_broker_sim.metrics.extra import need_extra
from rocketpy_broker_sim.namesrv import open_name_server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocketpy.remoting.network import Network
    from rocketpy_broker_sim.broker.broker import Broker
    from rocketpy_broker_sim.broker.name_servers.registration import Registration
    from rocketpy_broker_sim.config import BrokerConfig, NamesrvConfig
    from rocketpy_broker_sim.namesrv import NameServer

__all__ = ["ClusterServers"]

READY_WITHIN = 30.0
"""Seconds within which every broker must be registered with every name server."""
_KNOWN_WITHIN = 30.0
T = TypeVar("T")


class ClusterServers:
    """The servers of one cluster. Ports are chosen in the first run, and kept from then on.

    Args:
        brokers: the number of brokers.
        name_servers: the number of name servers.
        data: the directory for all data; None keeps it in memory.
        network: where the servers listen.
        metrics_port: the port for the metrics of the first broker; see `show_metrics`. None shows no metrics.
        settings: settings of brokers and name servers.

    Raises:
        ConfigError: a setting is unknown, or its value is not usable, or the extra `prometheus` is missing.

    Attributes:
        brokers: The slots of the brokers.
        name_servers: The slots of the name servers.
        storages: The storage of each broker.
        faults: The faults of sends to the brokers.
        news: Wakes calls when a message is stored, a broker starts, or the cluster ends.
    """

    def __init__(
        self,
        brokers: int,
        name_servers: int,
        *,
        data: str | Path | None,
        network: Network,
        metrics_port: int | None,
        settings: Mapping[str, Any],
    ) -> None:
        names = broker_names(brokers, settings)
        self._network = network
        self.storages = [storage_of(data, name) for name in names]
        self._broker_configs = [broker_settings(settings, name, 0) for name in names]
        self._name_server_configs = [name_server_settings(settings, 0) for _ in range(name_servers)]
        if metrics_port is not None:
            check_number("metrics_port", metrics_port, 0, 65_535)
            show_metrics([*self._broker_configs, *self._name_server_configs], metrics_port)
            need_extra()
        self._name_server_storages = [storage_of(data, f"namesrv-{number}") for number in range(name_servers)]
        self.brokers = [
            ServerSlot(f"broker {number} ({name})", partial(self._open_broker, number))
            for number, name in enumerate(names)
        ]
        self.name_servers = [
            ServerSlot(f"name server {number}", partial(self._open_name_server, number))
            for number in range(name_servers)
        ]
        self.faults = SendFaults()
        self.news = News()
        self._services: trio.Nursery | None = None
        self._pid: int | None = None

    # --- the whole -------------------------------------------------------------------------------------

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run all servers for the duration of a block, which begins when every name server knows every broker."""
        self._pid = os.getpid()
        try:
            with calendar():
                async with open_services() as self._services:
                    async with self._serving(self._services):
                        yield
        finally:
            self._pid = None

    @asynccontextmanager
    async def _serving(self, services: trio.Nursery) -> AsyncIterator[None]:
        try:
            for server in self.name_servers:
                await server.start(services)
            for slot in self.brokers:
                await slot.start(services)
            await self.wait_registered()
            yield
        finally:
            await _stop(self.brokers)
            await _stop(self.name_servers)
            self._services = None
            self.news.note()

    @property
    def is_ours(self) -> bool:
        """Whether this process runs them."""
        return self._pid == os.getpid()

    def check_process(self) -> None:
        """Refuse to go on in a forked child.

        Raises:
            ClientClosedError: this is one, and the servers run in its parent.
        """
        if self._pid is not None and not self.is_ours:
            raise ClientClosedError(
                f"the cluster runs in process {self._pid}, and this is its forked child {os.getpid()}: clients here "
                "can connect to its addresses, everything else must be done in the parent"
            )

    def nursery(self) -> trio.Nursery:
        """The nursery for tasks of the cluster.

        Raises:
            ConfigError: the cluster is not running.
            ClientClosedError: it runs in the parent of this process.
        """
        self.check_process()
        if self._services is None:
            raise ConfigError("the cluster is not running: use it inside `with` or `async with`")
        return self._services

    # --- one server ------------------------------------------------------------------------------------

    def broker(self, number: int) -> ServerSlot[Broker]:
        """The slot of a broker.

        Raises:
            ConfigError: there is no such broker, or the cluster is not running.
        """
        self.nursery()
        check_slot("broker", number, len(self.brokers))
        return self.brokers[number]

    def name_server(self, number: int) -> ServerSlot[NameServer]:
        """The slot of a name server.

        Raises:
            ConfigError: there is no such name server, or the cluster is not running.
        """
        self.nursery()
        check_slot("name server", number, len(self.name_servers))
        return self.name_servers[number]

    def ready_brokers(self) -> list[Broker]:
        """The running brokers.

        Raises:
            ConfigError: the cluster is not running.
        """
        self.nursery()
        return [slot.server for slot in self.brokers if slot.is_ready]

    def registrations(self) -> list[Registration]:
        """The registrations of the running brokers."""
        running = [slot.server.registration for slot in self.brokers if slot.is_running]
        return [registration for registration in running if registration is not None]

    @asynccontextmanager
    async def _open_name_server(self, number: int) -> AsyncIterator[NameServer]:
        config, storage = self._name_server_configs[number], self._name_server_storages[number]
        async with open_name_server(config, network=self._network, storage=storage) as server:
            _keep_ports(config, server)
            yield server

    @asynccontextmanager
    async def _open_broker(self, number: int) -> AsyncIterator[Broker]:
        config, storage = self._broker_configs[number], self.storages[number]
        addresses = [slot.server.address for slot in self.name_servers]
        async with open_broker(
            config, network=self._network, storage=storage, name_servers=addresses, hear=[self.news.note]
        ) as broker:
            _keep_ports(config, broker)
            if self.faults.is_used:
                self.faults.attach(broker, number)
            self.news.note()
            yield broker

    # --- waiting ---------------------------------------------------------------------------------------

    async def wait_registered(self) -> None:
        """Return when every running broker is registered with every running name server.

        Raises:
            RequestTimeoutError: this takes longer than thirty seconds.
            ConfigError: the cluster is not running.
        """
        self.nursery()
        addresses = [slot.server.address for slot in self.name_servers if slot.is_running]
        with trio.move_on_after(READY_WITHIN) as scope:
            for registration in self.registrations():
                await registration.wait_until(lambda known: known.issuperset(addresses))
        if scope.cancelled_caught:
            raise RequestTimeoutError(
                f"the brokers are not registered with {', '.join(addresses)} after {READY_WITHIN:g} s: "
                "see the log for the reason",
                timeout=READY_WITHIN,
            )

    async def wait_known(self, topic: str, queues: int = 0) -> None:
        """Return when every name server has a route for the topic, with that many queues unless `queues` is 0.

        Raises:
            RequestTimeoutError: this takes longer than thirty seconds.
            ConfigError: the cluster is not running.
        """
        servers = [slot.server for slot in self.name_servers if slot.is_ready]
        with trio.move_on_after(_KNOWN_WITHIN) as scope:
            for broker in self.ready_brokers():
                name = broker.config.broker_name

                def knows(addresses: set[str], name: str = name) -> bool:
                    known = [server.routes.queues.get(topic, {}).get(name) for server in servers]
                    return all(each is not None and queues in (0, each.write_queue_nums) for each in known)

                if broker.registration is not None:
                    await broker.registration.wait_until(knows)
        if scope.cancelled_caught:
            raise RequestTimeoutError(f"the name servers still have no route for {topic} after {_KNOWN_WITHIN:g} s")


def _keep_ports(config: BrokerConfig | NamesrvConfig, server: Broker | NameServer) -> None:
    """Note the ports of the first run for the next one."""
    config.server.listen_port = parse_address(server.address)[1]
    if server.metrics_address:
        config.metrics.metrics_prom_exporter_port = parse_address(server.metrics_address)[1]


async def _stop(slots: Sequence[ServerSlot[T]]) -> None:
    """Stop the running servers, all at the same time."""
    for slot in slots:
        slot.leave()
    for slot in slots:
        await slot.wait_left()
