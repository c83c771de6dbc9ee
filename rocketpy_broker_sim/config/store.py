"""Settings of the message store, named as Java names them. Plays the part of MessageStoreConfig."""

from __future__ import annotations

import enum

import attrs

from rocketpy_broker_sim.config.keys import java_key

__all__ = ["BrokerRole", "FlushDiskType", "MessageStoreConfig"]


class FlushDiskType(enum.Enum):
    """When a message counts as stored."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    """Once it is in the file; the disk follows within moments."""
    SYNC_FLUSH = "SYNC_FLUSH"
    """Once the disk has it."""


class BrokerRole(enum.Enum):
    """What part a broker plays among those of its name."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


@attrs.define(kw_only=True)
class MessageStoreConfig:
    """Where and how messages are kept. Times are milliseconds unless the name says otherwise."""

    # --- files ---
    store_path_root_dir: str = "~/store"
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * 20
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    message_index_enable: bool = True
    message_index_safe: bool = False
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000

    # --- writing ---
    max_message_size: int = 4 * 1024 * 1024
    """Bytes of a body; a whole record may be 64 KiB more."""
    enabled_append_prop_crc: bool = attrs.field(default=False, metadata=java_key("enabledAppendPropCRC"))
    """Give every record a checksum of the whole of it."""
    force_verify_prop_crc: bool = attrs.field(default=False, metadata=java_key("forceVerifyPropCRC"))
    duplication_enable: bool = False
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000

    # --- flushing ---
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout: int = 5000
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000

    # --- reading ---
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    """Percent of the machine's memory that counts as "still in memory"."""
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32
    travel_cq_file_num_when_get_message: int = 1
    pull_batch_max_message_count: int = 160
    offset_check_in_slave: bool = False

    # --- recovery ---
    check_crc_on_recover: bool = attrs.field(default=True, metadata=java_key("checkCRCOnRecover"))

    # --- keeping and cleaning ---
    file_reserved_time: int = 72
    """Hours."""
    delete_when: str = "04"
    """Hours of the day when old files go, joined by ";"."""
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_commit_log_files_interval: int = 100
    delete_consume_queue_files_interval: int = 100
    delete_file_batch_max: int = 10

    # --- replication ---
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    ha_listen_port: int = 10912
