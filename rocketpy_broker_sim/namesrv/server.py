"""Puts a name server together and serves it, for the time of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.network import Network, TcpNetwork
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.remoting.server import serve
from rocketpy.services import open_services, outliving
from rocketpy_broker_sim.config import NamesrvConfig
from rocketpy_broker_sim.metrics.extra import wants_metrics
from rocketpy_broker_sim.namesrv.counting import CountingDispatcher
from rocketpy_broker_sim.namesrv.metrics import open_metrics
from rocketpy_broker_sim.namesrv.min_broker import MinBrokerNotifier
from rocketpy_broker_sim.namesrv.name_server import NameServer
from rocketpy_broker_sim.namesrv.processor import processors
from rocketpy_broker_sim.serving.memory import warn_of_full_tables

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["open_name_server"]


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
        ConfigError: metrics are asked for, and the extra `prometheus` is missing.
        TransportError: the port is taken or the address is not one of this machine.
        StoreCorruptError: kvConfig.json is damaged.
    """
    server = NameServer(config or NamesrvConfig(), storage, limits)
    wants_metrics(server.config.metrics)  # or a missing package would be found only when all else serves
    server.kv_config.load()
    warn_of_full_tables(server.memory)
    async with outliving(_running(server, network or TcpNetwork(), limits)):
        yield server


@asynccontextmanager
async def _running(server: NameServer, network: Network, limits: ServerLimits | None) -> AsyncIterator[None]:
    dispatcher = CountingDispatcher(processors(server))
    settings = server.config.server
    bounds = limits or ServerLimits(
        connection=ConnectionLimits(idle_timeout=settings.server_channel_max_idle_time_seconds)
    )
    async with ConnectionPool(network).open() as pool, open_services() as services:
        server.notifier = MinBrokerNotifier(pool, services)
        await open_metrics(server, dispatcher, network, services)
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
        server.is_stopping = True
        await server.remoting.stop(settings.shutdown_wait_time_seconds)
