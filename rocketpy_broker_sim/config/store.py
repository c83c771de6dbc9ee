"""Settings of the message store, named as Java names them. Plays the part of MessageStoreConfig."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs
from attrs import validators

from rocketpy_broker_sim.config.keys import java_key

__all__ = ["BrokerRole", "FlushDiskType", "MessageStoreConfig"]

UNIT_SIZE = 20
"""Bytes of a consume queue unit; queue files hold whole units."""


class FlushDiskType(StrEnum):
    """When a send is acknowledged: after the write, or after the write has reached the disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(StrEnum):
    """What part a broker plays among those of its name."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


def _whole_units(size: int) -> int:
    return -(-size // UNIT_SIZE) * UNIT_SIZE


def _number(default: int, *, at_least: int = 0, key: str | None = None, whole_units: bool = False) -> Any:
    """A whole number with a lower bound."""
    return attrs.field(
        default=default,
        converter=_whole_units if whole_units else int,
        validator=validators.ge(at_least),
        metadata=java_key(key) if key else {},
    )


def _switch(default: bool, *, key: str | None = None) -> Any:
    return attrs.field(default=default, validator=validators.instance_of(bool), metadata=java_key(key) if key else {})


@attrs.define(kw_only=True)
class MessageStoreConfig:
    """What the message store is told. Sizes may only change between runs, limits at any time."""

    # --- files
    store_path_root_dir: str = "~/store"
    store_path_commit_log: str = ""
    """Folder of the commit log, where it does not stand in the root."""
    mapped_file_size_commit_log: int = _number(1024 * 1024 * 1024, at_least=128)
    """Bytes of every commit log file; a store is opened with the size it was made with."""
    mapped_file_size_consume_queue: int = _number(6_000_000, at_least=UNIT_SIZE, whole_units=True)
    """Bytes of every consume queue file, rounded up to whole units."""

    # --- writing
    max_message_size: int = _number(4 * 1024 * 1024, at_least=1)
    """Bytes of a body, and of the items of a batch together. A record may be 64 KiB larger."""
    auto_message_version_on_topic_len: bool = _switch(True)
    """Write records of version 2 for topics of more than 127 characters."""
    enabled_append_prop_crc: bool = _switch(False, key="enabledAppendPropCRC")
    """Close every record's properties with a checksum over the whole record."""
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays behind levels 1, 2, ...: numbers with the unit s, m, h or d."""

    # --- flushing (the services around the store read the times)
    flush_disk_type: FlushDiskType = attrs.field(default=FlushDiskType.ASYNC_FLUSH, converter=FlushDiskType)
    sync_flush_timeout: int = _number(5000)
    """Milliseconds that a send waits for its flush."""
    flush_interval_commit_log: int = _number(500, at_least=1)
    """Milliseconds between flushes of the commit log."""
    flush_interval_consume_queue: int = _number(1000, at_least=1)
    """Milliseconds between flushes of the consume queues and the checkpoint."""

    # --- recovery
    check_crc_on_recover: bool = _switch(True, key="checkCRCOnRecover")
    force_verify_prop_crc: bool = _switch(False, key="forceVerifyPropCRC")
    """Recovery takes only records whose whole-record checksum is there and right."""

    # --- reading
    max_transfer_bytes_on_message_in_memory: int = _number(256 * 1024)
    max_transfer_count_on_message_in_memory: int = _number(32)
    max_transfer_bytes_on_message_in_disk: int = _number(64 * 1024)
    max_transfer_count_on_message_in_disk: int = _number(8)
    access_message_in_memory_max_ratio: int = _number(40)
    """Percent of the machine's memory: what lies within that distance of the log's end counts as in memory."""
    memory_size: int | None = attrs.field(default=None, validator=validators.optional(validators.ge(0)))
    """Bytes of memory for the rule above; None asks the machine. Not a key of Java's."""
    max_filter_message_size: int = _number(16_000)
    """Bytes of a consume queue that one read looks through at least, before it answers that nothing matched."""
    travel_cq_file_num_when_get_message: int = _number(1, at_least=1)
    """Files of a consume queue that one read goes through at most."""

    # --- keeping and cleaning
    file_reserved_time: int = _number(72)
    """Hours that a file is kept."""
    delete_when: str = "04"
    """Hours of the day when old files go, joined by ";"."""
    disk_max_used_space_ratio: int = _number(75)
    disk_space_clean_forcibly_ratio: int = _number(85)
    disk_space_warning_level_ratio: int = _number(90)
    """Percent of the disk in use above which nothing more is written."""
    clean_resource_interval: int = _number(10_000, at_least=1)

    # --- the broker around the store
    flush_delay_offset_interval: int = _number(10_000, at_least=1)
    """Milliseconds between writes of how far the delay levels are."""
    broker_role: BrokerRole = attrs.field(default=BrokerRole.ASYNC_MASTER, converter=BrokerRole)
