"""How a master and its slaves keep up with each other: figures, the brokers in step, and the epochs of a log."""

from __future__ import annotations

from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "EpochEntry",
    "EpochEntryCache",
    "HAClientRuntimeInfo",
    "HAConnectionRuntimeInfo",
    "HARuntimeInfo",
    "SyncStateSet",
]


@body
class HAConnectionRuntimeInfo(Body):
    """A slave, as its master sees it."""

    addr: str | None = None
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


@body
class HAClientRuntimeInfo(Body):
    """A slave, as it sees itself."""

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0


@body
class HARuntimeInfo(Body):
    """The answer to GET_BROKER_HA_STATUS."""

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = member(factory=list)
    ha_client_runtime_info: HAClientRuntimeInfo = member(factory=HAClientRuntimeInfo)


@body
class SyncStateSet(Body):
    """The ids of the brokers in step with their master, and the number of this set."""

    sync_state_set: list[int] | None = None
    sync_state_set_epoch: Int32 = 0


@body
class EpochEntry(Body):
    """From where to where a log was written under one master; the last entry ends at Java's largest number."""

    epoch: Int32 = 0
    start_offset: int = 0
    end_offset: int = (1 << 63) - 1


@body
class EpochEntryCache(Body):
    """The answer to GET_BROKER_EPOCH_CACHE."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: int = 0
    epoch_list: list[EpochEntry] | None = None
    max_offset: int = 0
