"""The broker: what its processors and services share; `opening` starts and stops it. Plays BrokerController."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.message_id import UniqueIds
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.allocation import FileAllocation
from rocketpy_broker_sim.broker.cleaning import Cleaning
from rocketpy_broker_sim.broker.flush_services import LogFlush, LogProgress, QueueFlush
from rocketpy_broker_sim.broker.lanes import MOST_PENDING, Lanes
from rocketpy_broker_sim.broker.long_polling import HeldPull, HeldPulls
from rocketpy_broker_sim.broker.notifications import Notices
from rocketpy_broker_sim.broker.persistence import Persistence
from rocketpy_broker_sim.broker.processors.pull import pull_again
from rocketpy_broker_sim.broker.put_times import PutTimes
from rocketpy_broker_sim.broker.reput import ReputService
from rocketpy_broker_sim.broker.router import default_route, lanes_of, routes_of
from rocketpy_broker_sim.broker.schedule import ScheduleService
from rocketpy_broker_sim.broker.statistics import BrokerStatistics
from rocketpy_broker_sim.broker.store_services import Disk, GroupCommit
from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
from rocketpy_broker_sim.broker.tables.delay_offsets import DelayOffsetTable
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.broker.tables.producers import ProducerTable
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.broker.transient_commit import TransientCommit
from rocketpy_broker_sim.broker.turn import Turn
from rocketpy_broker_sim.broker.write_conditions import WriteConditions
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.serving.slices import Slices
from rocketpy_broker_sim.store.dispatch import DelayLevels
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import PutMessageResult, PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.registration import Registration
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.put_result import Arrival, IncomingMessage

__all__ = ["Broker"]


class Broker:
    """What processors and services work on. Made and opened by `open_broker`.

    Attributes:
        address: What clients dial, "host:port".
        store_host: The same, as records carry it.
        send_fields: What every answer to a send carries.
        added_properties: What is added to the properties of every message, as text.
        delay_levels: How many levels of delay there are.
        boot_timestamp: When it was made, ms.
        booted_at: How far the log went when it was opened.
        config_version: Rises when settings are changed by request.
        is_killed: Whether it shall end as it stands.
    """

    def __init__(self, config: BrokerConfig, storage: Storage, hooks: Sequence[RequestHook] = ()) -> None:
        self.config = config
        self.storage = storage
        self.boot_timestamp = wall_ms()
        self.booted_at = 0
        self.config_version = DataVersion()
        self.is_killed = False
        self.address = ""
        self.store_host = bytes(8)
        self.unique_ids = UniqueIds(bytes(4), os.getpid())
        self.topics = TopicTable(config, storage)
        self.groups = SubscriptionGroupTable(config, storage)
        self.offsets = ConsumerOffsetTable(config, storage)
        self.persistence = Persistence([self.topics, self.groups, self.offsets])
        self.slices = Slices()
        self.notices = Notices(lambda group: self.consumers.told(group), self.slices)
        self.consumers = ConsumerTable(config, clock=trio.current_time, notify=self.notices.changed)
        self.producers = ProducerTable(config, clock=trio.current_time)
        self.statistics = BrokerStatistics(trio.current_time)
        self.store = MessageStore(storage, config.store, on_arrival=self._note_arrival)
        self.conditions = WriteConditions(config.store, trio.current_time, self.store.pool)
        self.put_times = PutTimes(trio.current_time)
        self.turn = Turn(self.store, self.conditions, self.put_times, hooks)
        self.lanes = Lanes(lanes_of(config), routes_of(self), default_route(self), self.turn, self.slices)
        self.held_pulls = HeldPulls(self._resume_pull, config.max_held_pulls)
        self.turn.on_arrival = self._arrived
        self.reput = ReputService(self.store, self.turn)
        self.cleaning = Cleaning(self.store.retention, config.store, self.store.flags)
        self.disk = Disk(self.store)
        self.written_log = LogProgress(lambda: self.store.written_position)
        self.turn.on_written = self.written_log.note
        self.transient_commit: TransientCommit | None = None
        if self.store.pool is not None:
            self.transient_commit = TransientCommit(self.store, config.store, self.turn, self.written_log)
            self.turn.on_written = self.transient_commit.buffered.note
        self.log_flush = LogFlush(self.store, self.disk, config.store, self.written_log)
        self.queue_flush = QueueFlush(self.store, self.disk, config.store, self.written_log)
        self.allocation = FileAllocation(self.store.files_ahead)
        self.group_commit: GroupCommit | None = None
        if config.store.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            timeout = config.store.sync_flush_timeout / 1000
            self.group_commit = GroupCommit(self.disk, self.store, self.turn, self.put_times, timeout)
            self.turn.park = self.group_commit.park
        levels = DelayLevels(config.store.message_delay_level)
        self.delay_levels = levels.count
        delay_offsets = DelayOffsetTable(config, storage)
        self.schedule = ScheduleService(self.store, levels, delay_offsets, self.commit, self.disk.flush_taken)
        self.server: RemotingServer | None = None
        self.registration: Registration | None = None
        self._pull_again = partial(pull_again, self)
        self.refresh_settings()

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

    # --- messages --------------------------------------------------------------------------------------

    def put(self, message: IncomingMessage, *, wait: bool = True) -> PutMessageResult:
        """Put a message, or a batch. It is stored when the turn ends; the answer of the processor waits for that.

        A service that puts outside any request calls `commit` itself.

        Args:
            message: what to put.
            wait: whether the answer has to wait for the disk too, where the settings say so.
        """
        refusal = self.conditions.refusal()
        if refusal is not None:
            return PutMessageResult(refusal)
        result = self.store.put(message) if message.batch is None else self.store.put_batch(message)
        if result.status is PutMessageStatus.PUT_OK:
            self.turn.depends_on(result.end, wait_for_disk=wait)
        return result

    def commit(self) -> None:
        """Store what was put outside any request.

        Raises:
            StoreError: nothing of it was stored.
        """
        self.turn.commit()

    def _note_arrival(self, arrival: Arrival) -> None:
        self.statistics.note_put(len(arrival.tags_codes))
        self.turn.note_arrival(arrival)

    def _arrived(self, arrival: Arrival) -> None:
        if arrival.topic == SCHEDULE_TOPIC:
            self.schedule.on_arrival(arrival.queue_id)
        self.held_pulls.arrived(arrival)

    def _resume_pull(self, pull: HeldPull) -> None:
        self.lanes.submit("pull", self._pull_again, pull.connection, pull.request)
        if self.turn.pending_bytes > MOST_PENDING:
            # A thousand groups may wait for the same messages: their answers must not gather.
            self.turn.finish()

    # --- the end ---------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Serve nobody any more, from now on; when its block ends nothing more is said or written.

        What SIGKILL does to the process of a broker, for a broker that shares its process with others.
        """
        self.is_killed = True
        if self.server is not None:
            self.server.close()

    # --- clients ---------------------------------------------------------------------------------------

    def forget_connection(self, connection: Connection) -> None:
        """A connection has closed: its client is in no group any more."""
        self.slices.spawn(self.consumers.on_close(connection), "forgetting the consumers of a connection")
        self.slices.spawn(self.producers.on_close(connection), "forgetting the producers of a connection")
