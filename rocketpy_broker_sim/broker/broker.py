"""The broker: who it is, what its answers carry, and the list of its subsystems. Plays BrokerController.

`opening` starts and stops the subsystems; what requests may reach of them stands in `views`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.message import PropertyName
from rocketpy.remoting.network import TcpNetwork
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy.wire.message_id import UniqueIds
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.delay import DelayStage
from rocketpy_broker_sim.broker.lanes import Lanes
from rocketpy_broker_sim.broker.processors.pull import pull_again
from rocketpy_broker_sim.broker.put_pipeline import Place, PutPipeline
from rocketpy_broker_sim.broker.putting import StoreStage, packed_address
from rocketpy_broker_sim.broker.router import default_route, lanes_of, routes_of
from rocketpy_broker_sim.broker.runtime_info import runtime_info
from rocketpy_broker_sim.broker.send_checks import SendChecks
from rocketpy_broker_sim.broker.statistics import BrokerStatistics
from rocketpy_broker_sim.broker.subsystems.clients import Clients
from rocketpy_broker_sim.broker.subsystems.counting import Counting
from rocketpy_broker_sim.broker.subsystems.delays import Delays
from rocketpy_broker_sim.broker.subsystems.naming import Naming
from rocketpy_broker_sim.broker.subsystems.port import Port
from rocketpy_broker_sim.broker.subsystems.pulls import Pulls
from rocketpy_broker_sim.broker.subsystems.saving import Saving
from rocketpy_broker_sim.broker.subsystems.storing import Storing
from rocketpy_broker_sim.broker.subsystems.tables import Tables
from rocketpy_broker_sim.serving.memory import ANSWERS, HELD_PULLS, MEMBERSHIP, MemoryBudget
from rocketpy_broker_sim.serving.slices import Slices

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ServerLimits
    from rocketpy.remoting.network import Network
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.registration import Registration
    from rocketpy_broker_sim.broker.subsystem import Subsystem
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Broker"]


class Broker:
    """A list of subsystems, and what they and every answer need to know of the whole. `open_broker` runs it.

    Args:
        config: its settings.
        storage: where it keeps everything.
        hooks: see every request and its answer.
        network: where it listens and dials, TCP when None.
        name_servers: addresses to register with.
        limits: bounds on connections and frames.

    Attributes:
        subsystems: Its parts, in the order in which they start; they stop the other way round.
        slices: What it has to do that grows with what is asked.
        memory: What peers make it keep, and how much that may be.
        address: What clients dial, "host:port".
        store_host: The same, as records carry it.
        send_fields: What every answer to a send carries.
        added_properties: What is added to the properties of every message, as text.
        boot_timestamp: When it was made, ms.
        config_version: Rises when settings are changed by request.
        is_killed: Whether it shall end as it stands.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        hooks: Sequence[RequestHook] = (),
        *,
        network: Network | None = None,
        name_servers: Sequence[str] = (),
        limits: ServerLimits | None = None,
    ) -> None:
        self.config = config
        self.storage = storage
        self.boot_timestamp = wall_ms()
        self.config_version = DataVersion()
        self.is_killed = False
        self.address = ""
        self.store_host = bytes(8)
        self.unique_ids = UniqueIds(bytes(4), os.getpid())
        self.refresh_settings()
        self._network = network or TcpNetwork()
        self.statistics = BrokerStatistics(trio.current_time)
        self.memory = MemoryBudget() if limits is None else MemoryBudget(limits.max_kept)
        self.slices = Slices(memory=self.memory)
        self.subsystems = [*self._keeping(config, storage, hooks), *self._serving(config, name_servers, limits)]

    def _keeping(self, config: BrokerConfig, storage: Storage, hooks: Sequence[RequestHook]) -> list[Subsystem]:
        """The parts that have something to keep."""
        storing = Storing(storage, config, self.statistics, self._hear, hooks, self.memory.account(ANSWERS))
        delays = Delays(config, storage, storing)
        tables = Tables(config, storage, storing.store)
        saving = Saving(config, (storing, delays, tables))
        self.storing = storing
        self.store, self.turn, self.cleaning = storing.store, storing.turn, storing.cleaning
        self.put, self.commit, self.refusal = storing.put, storing.commit, storing.refusal
        storing.turn.subscribe(self._arrived)
        self.schedule, self.delay_levels = delays.schedule, delays.level_count
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        tables.topics.on_change = self._topics_changed
        self.persistence = saving.persistence
        self.pipeline = PutPipeline(
            {
                Place.CHECKS: SendChecks(self),
                Place.DELAY_LEVEL: DelayStage(delays.level_count),
                Place.STORE: StoreStage(storing.place, self.config),
            }
        )
        return [storing, delays, tables, saving, Counting(self.statistics, storing)]

    def _serving(
        self, config: BrokerConfig, name_servers: Sequence[str], limits: ServerLimits | None
    ) -> list[Subsystem]:
        """The parts that have to do with those outside."""
        clients = Clients(config, self.slices, self.memory.account(MEMBERSHIP))
        self.consumers, self.producers = clients.consumers, clients.producers
        self.lanes = Lanes(lanes_of(config), routes_of(self), default_route(self), self.turn, self.slices, self.memory)
        held = self.memory.account(HELD_PULLS)
        self.pulls = Pulls(config, self.lanes, self.turn, self.topics, partial(pull_again, self), held)
        self.waiters = self.pulls.waiters
        self._port = Port(
            config,
            self._network,
            self.lanes,
            limits=limits,
            budget=self.memory,
            on_open=self._settle_address,
            on_close=clients.forget,
            settle=self._settle,
        )
        self._naming = Naming(config, self._network, self.topics, name_servers, lambda: self.address)
        return [clients, self.pulls, self._port, self._naming]

    @property
    def server(self) -> RemotingServer | None:
        """What listens; None until it does."""
        return self._port.server

    @property
    def registration(self) -> Registration | None:
        """What keeps it known to the name servers; None until it serves."""
        return self._naming.registration

    def refresh_settings(self) -> None:
        """Take over settings that are kept in another form; call it when they have changed."""
        config = self.config
        trace = "true" if config.trace_on else "false"
        self.added_property_map = {
            PropertyName.MSG_REGION: config.region_id,
            PropertyName.TRACE_SWITCH: trace,
            PropertyName.CLUSTER: config.broker_cluster_name,
        }
        self.added_properties = encode_properties(self.added_property_map)
        self.send_fields = {"TRACE_ON": trace, "MSG_REGION": config.region_id}

    def runtime_info(self) -> dict[str, str]:
        """What it has done and holds, by Apache's keys: what all its parts measure."""
        return runtime_info(self.config, self.boot_timestamp, self.subsystems)

    # --- what parts say to each other ------------------------------------------------------------------

    def _arrived(self, arrival: Arrival) -> None:
        if arrival.topic == SCHEDULE_TOPIC:
            self.schedule.on_arrival(arrival.queue_id)
        self.waiters.arrived(arrival)

    def _topics_changed(self, names: list[str]) -> None:
        self.pulls.topics_changed(names)
        if self.registration is not None:
            self.registration.topics_changed(names)

    def _hear(self, topic: str, done: Callable[[], object]) -> None:
        """Call a function once the name servers have heard of a topic; at once where there is none."""
        if self.registration is None:
            done()
        else:
            self.registration.heard(topic, done)

    def _settle_address(self, address: str) -> None:
        """Clients find the broker there."""
        self.address = address
        self.store_host = packed_address(address)
        if not any(self.store_host):
            # A name instead of an address: records can only carry addresses.
            _, port = parse_address(address)
            self.store_host = packed_address(format_address(self._network.local_ip(), port))

    async def _settle(self) -> None:
        """The last answers are about to leave: nothing waits any more."""
        for subsystem in reversed(self.subsystems):
            await subsystem.settle()
        self.turn.finish()

    # --- start and end ---------------------------------------------------------------------------------

    def recover(self) -> None:
        """Read everything. Blocking. When that fails, what was taken is given back.

        Raises:
            StoreError: a part cannot read its files, or they belong to another broker.
        """
        recovered: list[Subsystem] = []
        try:
            for subsystem in self.subsystems:
                subsystem.recover()
                recovered.append(subsystem)
        except BaseException:
            for subsystem in reversed(recovered):
                subsystem.give_back()
            raise
        self.storing.note_boot()

    def kill(self) -> None:
        """Serve nobody any more, from now on; when its block ends nothing more is said or written.

        What SIGKILL does to the process of a broker, for a broker that shares its process with others.
        """
        self.is_killed = True
        if self.server is not None:
            self.server.close()
