"""The port: where requests come in, and where the last answers leave. Plays BrokerController's remoting server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.server import serve
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_lanes, metrics_of_server
from rocketpy_broker_sim.broker.runtime_info import measures_of_lanes
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem

if TYPE_CHECKING:
    from rocketpy.remoting.budget import Budget
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.network import Network
    from rocketpy.remoting.server import RemotingServer
    from rocketpy_broker_sim.broker.lanes import Lanes
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family

__all__ = ["Port"]

_EVERYWHERE = ("", "0.0.0.0", "::")


class Port(Subsystem):
    """Listens, and hands what comes in to the lanes.

    Args:
        config: the settings.
        network: where it listens.
        lanes: take the requests.
        limits: bounds on connections and frames; those of the settings when None.
        budget: what connections make the broker keep counts against it.
        on_open: hears under which address clients find the broker, before any of them does.
        on_close: hears of every connection that has closed.
        settle: answers all that waits, when it is to end.

    Attributes:
        server: What listens; None until it does.
    """

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        lanes: Lanes,
        *,
        limits: ServerLimits | None = None,
        budget: Budget | None = None,
        on_open: Callable[[str], None],
        on_close: Callable[[Connection], None],
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        self.server: RemotingServer | None = None
        self._config = config
        self._network = network
        self._lanes = lanes
        self._limits = limits
        self._budget = budget
        self._on_open = on_open
        self._on_close = on_close
        self._settle = settle

    async def open(self, services: trio.Nursery) -> None:
        """Listen, and settle under which address clients find it."""
        await super().open(services)
        self.server = await services.start(self._serve)
        host, port = parse_address(self.server.addresses[0])
        known = self._config.broker_ip1 or (self._network.local_ip() if host in _EVERYWHERE else host)
        self._on_open(format_address(known, port))

    @trio.lowlevel.enable_ki_protection
    async def _serve(self, task_status: trio.TaskStatus[RemotingServer]) -> None:
        settings, limits = self._config.server, self._limits
        if limits is None:
            idle = float(settings.server_channel_max_idle_time_seconds)
            limits = ServerLimits(connection=ConnectionLimits(idle_timeout=idle))
        await serve(
            self._network,
            settings.bind_address,
            settings.listen_port,
            self._lanes,
            limits=limits,
            on_close=self._on_close,
            budget=self._budget,
            task_status=task_status,
        )

    def run(self) -> Iterable[Service]:
        """Working off what waits in the lanes."""
        yield self._lanes.serve

    async def leave(self) -> None:
        """Let what was taken be answered, as far as the peers read, within the settings' time even when cancelled."""
        within = self._config.server.shutdown_wait_time_seconds
        with trio.move_on_after(within, shield=True):
            if self.server is not None:
                await self.server.stop_reading()
                await self._settle()
                await self.server.stop(within)
        if self.server is not None:
            # What is parked or sent to a peer that does not read is lost: whatever it does, others wait for the end.
            self.server.close()

    def measures(self) -> Mapping[str, str]:
        """How full the lanes are."""
        return measures_of_lanes(self._lanes)

    def families(self) -> Iterable[Family]:
        """How full the lanes are, and who is connected."""
        yield from metrics_of_lanes(self._lanes)
        yield from metrics_of_server(self.server)

    def problems(self) -> Iterable[str]:
        """Whether it listens."""
        if self.server is None:
            yield "the broker starts: it does not listen yet"
