"""NameServer: the tables of one name server, and its two services.

Plays the part of NamesrvController and BrokerHousekeepingService.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.services import ticks
from rocketpy_broker_sim.namesrv.kv_config import FILE_NAME, KVConfig
from rocketpy_broker_sim.namesrv.kv_writer import KVWriter
from rocketpy_broker_sim.namesrv.route_info import RouteInfo
from rocketpy_broker_sim.serving.memory import REGISTRATIONS, ConnectionCharges, MemoryBudget, TableRoom
from rocketpy_broker_sim.serving.slices import Slices

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.limits import ServerLimits
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import NamesrvConfig
    from rocketpy_broker_sim.namesrv.min_broker import MinBrokerChange, MinBrokerNotifier

__all__ = ["NameServer"]

logger = get_logger(__name__)


class NameServer:
    """The state of one name server. Made and served by `open_name_server`.

    Attributes:
        config: the settings as they are now; some may change at run time.
        routes: brokers and queues.
        slices: does what takes long, a little at a time.
        memory: what peers make it keep, and how much that may be.
        kv_config: what operators keep here.
        kv_writer: writes it where it is kept in a file.
        address: where it listens, "host:port".
        metrics_address: where `/metrics` and `/healthz` are, "host:port"; empty if they are not shown.
        boot_timestamp: when it was made, ms.
        is_stopping: whether it shuts down.
    """

    def __init__(
        self, config: NamesrvConfig, storage: Storage | None = None, limits: ServerLimits | None = None
    ) -> None:
        self.config = config
        self.memory = MemoryBudget(config.max_kept_bytes if limits is None else limits.max_kept)
        self.slices = Slices(memory=self.memory)
        self._registered = ConnectionCharges(self.memory.account(REGISTRATIONS))
        self.routes = RouteInfo(
            on_min_broker_changed=self._min_broker_changed,
            later=partial(self.slices.spawn, what="sweeping up after a broker"),
            admit=self._admit,
        )
        self.refresh_settings()
        room = TableRoom(self.memory, "delete key values that are not needed")
        self.kv_config = KVConfig(storage, os.path.basename(config.kv_config_path) or FILE_NAME, room)
        self.kv_writer = KVWriter(self.kv_config)
        self.address = self.metrics_address = ""
        self.boot_timestamp = wall_ms()
        self.is_stopping = False
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

    @trio.lowlevel.enable_ki_protection
    async def expire_service(self) -> None:
        """Forget brokers that have gone silent, and end their connections: one that still lives registers again."""
        async for _ in ticks(self.config.scan_not_active_broker_interval / 1000):
            self.slices.spawn(self._expire_steps(), "forgetting brokers that have gone silent")

    def _expire_steps(self) -> Generator[None, None, None]:
        for identity in self.routes.expired(self.now()):
            live = self.routes.live.get(identity.key)
            if live is None or not live.is_expired(self.now()):
                continue
            logger.warning("%s has timed out", identity)
            self.routes.unregister([identity])
            if self.remoting is not None and live.connection in self.remoting.connections:
                live.connection.close()
            yield

    def _min_broker_changed(self, change: MinBrokerChange) -> None:
        if self.config.notify_min_broker_id_changed and self.notifier is not None:
            self.notifier.tell(change)
