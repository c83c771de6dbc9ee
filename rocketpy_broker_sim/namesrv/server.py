"""NameServer: one listening name server with its tables and its two services.

Plays the part of NamesrvController and BrokerHousekeepingService.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.logs import get_logger
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.network import Network, TcpNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.remoting.server import RemotingServer, serve
from rocketpy.services import open_services, outliving, ticks
from rocketpy_broker_sim.config import NamesrvConfig
from rocketpy_broker_sim.namesrv.kv_config import FILE_NAME, KVConfig
from rocketpy_broker_sim.namesrv.kv_writer import KVWriter
from rocketpy_broker_sim.namesrv.min_broker import MinBrokerChange, MinBrokerNotifier
from rocketpy_broker_sim.namesrv.processor import processors
from rocketpy_broker_sim.namesrv.route_info import RouteInfo
from rocketpy_broker_sim.serving.memory import REGISTRATIONS, MemoryBudget, TableRoom, Tally, warn_of_full_tables
from rocketpy_broker_sim.serving.slices import Slices

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.seams import Storage

__all__ = ["NameServer", "open_name_server"]

logger = get_logger(__name__)


class NameServer:
    """The state of one name server. Made by `open_name_server`.

    Attributes:
        config: the settings as they are now; some may change at run time.
        routes: brokers and queues.
        slices: does what takes long, a little at a time.
        memory: what peers make it keep, and how much that may be.
        kv_config: what operators keep here.
        kv_writer: writes it where it is kept in a file.
        address: where it listens, "host:port".
    """

    def __init__(
        self, config: NamesrvConfig, storage: Storage | None = None, limits: ServerLimits | None = None
    ) -> None:
        self.config = config
        self.memory = MemoryBudget(config.max_kept_bytes if limits is None else limits.max_kept)
        self.slices = Slices(memory=self.memory)
        self._registered = Tally(self.memory.account(REGISTRATIONS))
        self.routes = RouteInfo(
            on_min_broker_changed=self._min_broker_changed,
            later=partial(self.slices.spawn, what="sweeping up after a broker"),
            admit=self._admit,
        )
        self.refresh_settings()
        room = TableRoom(self.memory, "delete key values that are not needed")
        self.kv_config = KVConfig(storage, os.path.basename(config.kv_config_path) or FILE_NAME, room)
        self.kv_writer = KVWriter(self.kv_config)
        self.address = ""
        self.remoting: RemotingServer | None = None
        self.notifier: MinBrokerNotifier | None = None
        self._started_at = 0.0

    def refresh_settings(self) -> None:
        """Take over settings that are kept in another place; call it when they have changed."""
        self.routes.delete_topic_with_registration = self.config.delete_topic_with_broker_registration

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return trio.current_time()

    def start_clock(self) -> None:
        """Begin to count the grace period in which routes are not given out yet."""
        self._started_at = self.now()

    def is_warming_up(self) -> bool:
        """Whether it was told to wait for its brokers and the wait is not over."""
        config = self.config
        return config.need_wait_for_service and self.now() < self._started_at + config.wait_seconds_for_service

    def note_registered(self, connection: object) -> None:
        """What the brokers of a connection take may have changed."""
        self._admit(connection, self.routes.kept_for(connection))

    def _admit(self, connection: object, size: int) -> bool:
        return self._registered.set(cast("Connection", connection), size)

    def connection_closed(self, connection: Connection) -> None:
        """A broker whose connection ends is gone."""
        if self.routes.of_connection(connection):
            self.slices.spawn(self.routes.leave_steps(connection), "forgetting the brokers of a connection")

    async def expire_service(self) -> None:
        """Forget brokers that have gone silent, and end their connections: one that lives after all registers anew."""
        async for _ in ticks(self.config.scan_not_active_broker_interval / 1000):
            self.slices.spawn(self._expire_steps(), "forgetting brokers that have gone silent")

    def _expire_steps(self) -> Generator[None, None, None]:
        for identity in self.routes.expired(self.now()):
            live = self.routes.live.get(identity.key)
            if live is None or not live.is_expired(self.now()):
                continue
            logger.warning("%s has gone silent", identity)
            self.routes.unregister([identity])
            if self.remoting is not None and live.connection in self.remoting.connections:
                live.connection.close()
            yield

    def _min_broker_changed(self, change: MinBrokerChange) -> None:
        if self.config.notify_min_broker_id_changed and self.notifier is not None:
            self.notifier.tell(change)


@asynccontextmanager
async def open_name_server(
    config: NamesrvConfig | None = None,
    *,
    network: Network | None = None,
    storage: Storage | None = None,
    limits: ServerLimits | None = None,
) -> AsyncIterator[NameServer]:
    """Run a name server for the time of a block.

    Args:
        config: its settings; it listens on this machine only unless they say otherwise, port 0 takes any free port.
        network: where it listens, TCP when None.
        storage: where the key values are kept, under the name of the settings; nowhere when None.
        limits: bounds on connections and frames.

    Raises:
        TransportError: the port is taken or the address is not one of this machine.
        StoreCorruptError: kvConfig.json is damaged.
    """
    server = NameServer(config or NamesrvConfig(), storage, limits)
    server.kv_config.load()
    warn_of_full_tables(server.memory)
    async with outliving(_running(server, network or TcpNetwork(), limits)):
        yield server


@asynccontextmanager
async def _running(server: NameServer, network: Network, limits: ServerLimits | None) -> AsyncIterator[None]:
    dispatcher = Dispatcher(processors(server))
    settings = server.config.server
    bounds = limits or ServerLimits(
        connection=ConnectionLimits(idle_timeout=settings.server_channel_max_idle_time_seconds)
    )
    async with ConnectionPool(network).open() as pool, open_services() as services:
        server.notifier = MinBrokerNotifier(pool, services)
        server.remoting = await services.start(
            partial(
                serve,
                network,
                settings.bind_address,
                settings.listen_port,
                dispatcher,
                limits=bounds,
                on_close=server.connection_closed,
                budget=server.memory,
            )
        )
        server.address = server.remoting.addresses[0]
        server.start_clock()
        services.start_soon(server.slices.serve)
        services.start_soon(server.kv_writer.serve)
        services.start_soon(server.expire_service)
        yield
        await server.remoting.stop(settings.shutdown_wait_time_seconds)
