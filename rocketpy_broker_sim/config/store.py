"""Settings of the message store, named as Java names them. Plays the part of MessageStoreConfig."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import attrs

from rocketpy.errors import ConfigError
from rocketpy.wire.fields import camel_case
from rocketpy_broker_sim.config.kinds import count, hours, number, own, switch, text
from rocketpy_broker_sim.config.settings import Settings

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


_LARGEST = 2**31 - 1


def _whole_units(size: object) -> object:
    return -(-size // UNIT_SIZE) * UNIT_SIZE if type(size) is int else size


def _file_size(default: int, *, at_least: int, unit: int = 1) -> Any:
    """Bytes of every file of a kind: so many that Java's int, and a position within the file, can say them."""
    most = _LARGEST // unit * unit

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not int or not at_least <= value <= most:
            raise ConfigError(
                f"{camel_case(field.name)}={value!r} is not usable: files of this kind have {at_least} to {most} bytes "
                f"(at most 2 GiB - 1); take {default}, Apache's default, or the size the store was made with"
            )

    return attrs.field(default=default, converter=_whole_units if unit > 1 else None, validator=check)


@attrs.define(kw_only=True, eq=False, repr=False)
class MessageStoreConfig(Settings):
    """What the message store is told. Sizes may only change between runs, limits at any time."""

    # --- files
    store_path_root_dir: str = text("~/store", filled=True)
    """Folder of the store."""
    store_path_commit_log: str = text("", without=",")
    """Folder of the commit log, where it does not stand in the root."""
    mapped_file_size_commit_log: int = _file_size(1024 * 1024 * 1024, at_least=128)
    """Bytes of every commit log file, at most 2 GiB - 1; a store is opened with the size it was made with."""
    mapped_file_size_consume_queue: int = _file_size(6_000_000, at_least=UNIT_SIZE, unit=UNIT_SIZE)
    """Bytes of every consume queue file, rounded up to whole units."""
    warm_maped_file_enable: bool = switch(False)
    """Write zeros over every new commit log file ahead of its use, and have its pages kept in memory."""
    flush_least_pages_when_warm_maped_file: int = count(4096)
    """Pages of 4 KiB after which those zeros are forced to the disk, with SYNC_FLUSH."""

    enable_consume_queue_ext: bool = switch(False)
    """Keep the bit maps of messages, with their tags code and store time, in a file beside the consume queue."""
    mapped_file_size_consume_queue_ext: int = _file_size(48 * 1024 * 1024, at_least=1024)
    """Bytes of every such file."""

    # --- writing
    max_message_size: int = number(4 * 1024 * 1024, at_least=1)
    """Bytes of a body, and of the items of a batch together. A record may be 64 KiB larger."""
    auto_message_version_on_topic_len: bool = switch(True)
    """Whether retry topics of more than 127 characters may be stored: their records need the second version."""
    enabled_append_prop_crc: bool = switch(False, key="enabledAppendPropCRC")
    """Close every record's properties with a checksum over the whole record."""
    os_page_cache_busy_time_out_mills: int = number(1000)
    """Milliseconds that an append may take; after a longer one messages are refused for a moment."""
    message_delay_level: str = text("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    """The delays behind levels 1, 2, ...: numbers with the unit s, m, h or d."""

    # --- timers
    timer_wheel_enable: bool = switch(True)
    """Whether messages may have a delay or a time of delivery of their own."""
    mapped_file_size_timer_log: int = _file_size(100 * 1024 * 1024, at_least=128)
    """Bytes of every timer log file."""
    timer_precision_ms: int = number(1000, at_least=10, at_most=60_000)
    """Milliseconds of a slot of the timer wheel. A store with waiting timer messages must be opened with the same value
    as before. It does not limit how exactly messages are delivered: each is delivered at its own time."""
    timer_roll_window_slot: int = number(2 * 24 * 3600, at_most=2**31 - 1)
    """Slots ahead beyond which a message is stored once more before it is due."""
    timer_max_delay_sec: int = number(3 * 24 * 3600, at_most=2**31 - 1)
    """Seconds that a message may be delayed; the log must keep messages as long as that, or as two days."""
    timer_congest_num_each_slot: int = number(2**31 - 1, at_most=2**31 - 1)
    """Messages in a slot above which more and more of them are refused, and all of them at twice that number."""
    timer_flush_interval_ms: int = count(1000)
    """Milliseconds between flushes of timer wheel, log and checkpoint."""
    timer_stop_enqueue: bool = switch(False)
    """Whether messages are left in the timer's topic: no more messages are delivered until this is off again."""
    timer_stop_dequeue: bool = switch(False)
    """Whether messages that are due are left in the wheel."""
    disappear_time_after_start: int = number(-1, at_least=-1, at_most=2**31 - 1)
    """Milliseconds after the start before which no timer message is delivered."""

    # --- the key index
    message_index_enable: bool = switch(True)
    """Whether messages can be found by their keys and unique ids."""
    max_hash_slot_num: int = number(5_000_000, at_least=1, at_most=100_000_000)
    """Slots of every index file; the index is rebuilt when it was made with other numbers."""
    max_index_num: int = number(20_000_000, at_least=2, at_most=100_000_000)
    """Entries of every index file, likewise; the first is never used."""
    message_index_safe: bool = switch(False)
    """Whether the index goes to the disk with every flush of the queues. Otherwise it may stay ten flushes behind, and
    what a crash takes of it is read from the log at the next start."""
    max_msgs_num_batch: int = count(64)
    """Messages of an answer to a query by key."""
    default_query_max_num: int = count(32)
    """Messages of an answer to a query by unique id."""

    # --- flushing (the services around the store read the times)
    flush_disk_type: FlushDiskType = attrs.field(default=FlushDiskType.ASYNC_FLUSH, converter=FlushDiskType)
    """ASYNC_FLUSH acknowledges what is written, SYNC_FLUSH what has reached the disk."""
    sync_flush_timeout: int = number(5000)
    """Milliseconds that a send waits for its flush."""
    flush_interval_commit_log: int = count(500)
    """Milliseconds between flushes of the commit log, without SYNC_FLUSH."""
    flush_commit_log_timed: bool = switch(True)
    """Whether that time passes before every flush; else a message may wake it, see `wakeFlushWhenPutMessage`."""
    wake_flush_when_put_message: bool = switch(False)
    """Whether a message wakes the flush, where `flushCommitLogTimed` is off."""
    flush_commit_log_least_pages: int = number(0, at_most=2**31 - 1)
    """Pages of 4 KiB that must have gathered for a flush; with 0 no message waits for others."""
    flush_commit_log_thorough_interval: int = count(10_000)
    """Milliseconds after which fewer pages are flushed too."""
    transient_store_pool_enable: bool = switch(False)
    """Whether messages go to buffers in memory first. Only with ASYNC_FLUSH; a killed broker loses what is in them."""
    transient_store_pool_size: int = number(5, at_least=2, at_most=2**31 - 1)
    """Buffers there may be, each as large as a commit log file; when all are in use, messages are refused."""
    fast_fail_if_no_buffer_in_store_pool: bool = switch(False)
    """Whether a new log file is refused when there is no buffer for it; else the buffers are emptied first."""
    commit_interval_commit_log: int = count(200)
    """Milliseconds between moves from the buffers to the files, where `wakeCommitWhenPutMessage` is off."""
    wake_commit_when_put_message: bool = switch(True)
    """Whether a message wakes the move as soon as there are enough pages."""
    commit_commit_log_least_pages: int = number(4, at_most=2**31 - 1)
    """Pages of 4 KiB that must have gathered for a move."""
    commit_commit_log_thorough_interval: int = count(200)
    """Milliseconds after which fewer pages are moved too."""
    flush_interval_consume_queue: int = count(1000)
    """Milliseconds between flushes of the consume queues and the checkpoint."""
    flush_consume_queue_least_pages: int = number(2, at_most=2**31 - 1)
    """Pages of new units that a queue must have for a flush."""
    flush_consume_queue_thorough_interval: int = count(60_000)
    """Milliseconds after which all queues are flushed."""

    # --- cleaning
    clean_resource_interval: int = count(10_000)
    """Milliseconds between rounds."""
    delete_when: str = hours("04")
    """Local hours in which files that are old enough are deleted, as in 04 or 04;16."""
    file_reserved_time: int = number(72, at_most=2**31 - 1)
    """Hours that a commit log file is kept after it was last written."""
    disk_max_used_space_ratio: int = number(75)
    """Percent of the disk beyond which files that are old enough go at any hour; kept within 10 and 95."""
    disk_space_clean_forcibly_ratio: int = number(85)
    """Percent beyond which files go whatever their age; at least 30."""
    disk_space_warning_level_ratio: int = number(90)
    """Percent beyond which nothing is stored any more; at least 35."""
    clean_file_forcibly_enable: bool = switch(True)
    """Whether files ever go before they are old enough."""
    delete_file_batch_max: int = count(10)
    """Commit log files that go in one round."""
    delete_commit_log_files_interval: int = number(100)
    """Milliseconds between them."""
    delete_consume_queue_files_interval: int = number(100)
    """Milliseconds between queues whose files go."""
    redelete_hanged_file_interval: int = number(120_000)
    """Milliseconds after which a file is tried again that the disk would not delete."""

    # --- recovery
    check_crc_on_recover: bool = switch(True, key="checkCRCOnRecover")
    """Whether recovery checks the checksums of bodies."""
    force_verify_prop_crc: bool = switch(False, key="forceVerifyPropCRC")
    """Recovery takes only records whose whole-record checksum is there and right."""

    # --- reading
    max_transfer_bytes_on_message_in_memory: int = number(256 * 1024)
    """Bytes of an answer to a pull, for messages in memory."""
    max_transfer_count_on_message_in_memory: int = number(32)
    """Messages of an answer, likewise."""
    max_transfer_bytes_on_message_in_disk: int = number(64 * 1024)
    """Bytes of an answer to a pull, for messages on the disk only."""
    max_transfer_count_on_message_in_disk: int = number(8)
    """Messages of an answer, likewise."""
    access_message_in_memory_max_ratio: int = number(40)
    """Percent of the machine's memory: what lies within that distance of the log's end counts as in memory."""
    max_queues: int = own(1_000_000)
    """Queues with messages that may exist, of all topics together: each takes some 2 KB of memory, and a file."""
    memory_size: int | None = own(None)
    """Bytes of memory for the rule above; None asks the machine."""
    max_filter_message_size: int = number(16_000)
    """Bytes of a consume queue that one read looks through at least, before it answers that nothing matched."""
    travel_cq_file_num_when_get_message: int = count(1)
    """Files of a consume queue that one read goes through at most."""

    # --- the broker around the store
    flush_delay_offset_interval: int = count(10_000)
    """Milliseconds between writes of how far the delay levels are."""
    broker_role: BrokerRole = attrs.field(default=BrokerRole.ASYNC_MASTER, converter=BrokerRole)
