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
    """When a send is acknowledged: ASYNC_FLUSH after the write, SYNC_FLUSH after the data has reached the disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(StrEnum):
    """The role of a broker among the brokers with its name."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


_LARGEST = 2**31 - 1


def _whole_units(size: object) -> object:
    return -(-size // UNIT_SIZE) * UNIT_SIZE if type(size) is int else size


def _file_size(default: int, *, at_least: int, unit: int = 1) -> Any:
    """Size of each file of a kind, in bytes, within a range that fits Java's int."""
    most = _LARGEST // unit * unit

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not int or not at_least <= value <= most:
            raise ConfigError(
                f"{camel_case(field.name)}={value!r} is not usable: files of this kind have {at_least} to {most} bytes "
                f"(at most 2 GiB - 1); use {default}, Apache's default, or the size that the store was created with"
            )

    return attrs.field(default=default, converter=_whole_units if unit > 1 else None, validator=check)


@attrs.define(kw_only=True, eq=False, repr=False)
class MessageStoreConfig(Settings):
    """The settings of the message store. Sizes can change only between runs, limits at any time."""

    # --- files
    store_path_root_dir: str = text("~/store", filled=True)
    """Directory of the store."""
    store_path_commit_log: str = text("", without=",")
    """Directory of the commit log; "" is the directory commitlog in that of the store."""
    mapped_file_size_commit_log: int = _file_size(1024 * 1024 * 1024, at_least=128)
    """Bytes of each commit log file, at most 2 GiB - 1. A store must be opened with the size that it was created
    with."""
    mapped_file_size_consume_queue: int = _file_size(6_000_000, at_least=UNIT_SIZE, unit=UNIT_SIZE)
    """Bytes of each consume queue file, rounded up to whole units."""
    warm_maped_file_enable: bool = switch(False)
    """Whether each new commit log file is filled with zeros before it is used, and its pages are locked in memory."""
    flush_least_pages_when_warm_maped_file: int = count(4096)
    """Pages of 4 KiB after which these zeros are flushed, with SYNC_FLUSH."""

    enable_consume_queue_ext: bool = switch(False)
    """Whether the bit map of a message, with its tags code and store time, is kept in a file beside the consume
    queue."""
    mapped_file_size_consume_queue_ext: int = _file_size(48 * 1024 * 1024, at_least=1024)
    """Bytes of each of these files."""

    # --- writing
    max_message_size: int = number(4 * 1024 * 1024, at_least=1)
    """The largest body of a message, or of a whole batch, in bytes. A record may be 64 KiB larger."""
    auto_message_version_on_topic_len: bool = switch(True)
    """Whether messages for retry topics of more than 127 characters are stored. Their records need version 2 of the
    format."""
    enabled_append_prop_crc: bool = switch(False, key="enabledAppendPropCRC")
    """Whether each record gets a checksum over the whole record, as its last property."""
    os_page_cache_busy_time_out_mills: int = number(1000)
    """Milliseconds that an append may take. After a slower one, the requests that arrived meanwhile get SYSTEM_BUSY."""
    message_delay_level: str = text("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    """The delays of levels 1, 2, and so on: numbers with the unit s, m, h or d."""

    # --- timers
    timer_wheel_enable: bool = switch(True)
    """Whether messages may have a delay or a time of delivery of their own."""
    mapped_file_size_timer_log: int = _file_size(100 * 1024 * 1024, at_least=128)
    """Bytes of each timer log file."""
    timer_precision_ms: int = number(1000, at_least=10, at_most=60_000)
    """Milliseconds of a slot of the timer wheel. A store with waiting timer messages must be opened with the same value
    as before. It does not limit how exactly messages are delivered: each is delivered at its own time."""
    timer_roll_window_slot: int = number(2 * 24 * 3600, at_most=2**31 - 1)
    """A message that is due more than this number of slots ahead is stored again before it is due."""
    timer_max_delay_sec: int = number(3 * 24 * 3600, at_most=2**31 - 1)
    """Seconds that a message may be delayed; the log must keep messages as long as that, or as two days."""
    timer_congest_num_each_slot: int = number(2**31 - 1, at_most=2**31 - 1)
    """Messages in a slot above which further ones are refused: at first a few, all of them at twice that number."""
    timer_flush_interval_ms: int = count(1000)
    """Milliseconds between flushes of timer wheel, log and checkpoint."""
    timer_stop_enqueue: bool = switch(False)
    """Whether messages are left in the timer's topic: no more messages are delivered until this is off again."""
    timer_stop_dequeue: bool = switch(False)
    """Whether messages that are due are left in the wheel."""
    disappear_time_after_start: int = number(-1, at_least=-1, at_most=2**31 - 1)
    """Milliseconds after the start during which no timer message is delivered."""

    # --- the key index
    message_index_enable: bool = switch(True)
    """Whether messages can be found by their keys and unique ids."""
    max_hash_slot_num: int = number(5_000_000, at_least=1, at_most=100_000_000)
    """Slots of each index file. If this setting changes, the index is rebuilt."""
    max_index_num: int = number(20_000_000, at_least=2, at_most=100_000_000)
    """Entries of each index file; the first one is never used. If this setting changes, the index is rebuilt."""
    message_index_safe: bool = switch(False)
    """Whether the index is written to the disk with every flush of the queues. If not, it may be up to ten flushes
    behind, and the next start after a crash restores the rest of it from the log."""
    max_msgs_num_batch: int = count(64)
    """The largest number of messages in an answer to a query by key."""
    default_query_max_num: int = count(32)
    """The largest number of messages in an answer to a query by unique id."""

    # --- flushing (the services around the store use the times)
    flush_disk_type: FlushDiskType = attrs.field(default=FlushDiskType.ASYNC_FLUSH, converter=FlushDiskType)
    """When a message is acknowledged: with ASYNC_FLUSH once it is written, with SYNC_FLUSH once it has reached the
    disk."""
    sync_flush_timeout: int = number(5000)
    """Milliseconds that a send waits for its flush; then it is answered FLUSH_DISK_TIMEOUT."""
    flush_interval_commit_log: int = count(500)
    """Milliseconds between flushes of the commit log, without SYNC_FLUSH."""
    flush_commit_log_timed: bool = switch(True)
    """Whether each flush waits for that interval. If not, a message may start it, see `wakeFlushWhenPutMessage`."""
    wake_flush_when_put_message: bool = switch(False)
    """Whether a message starts a flush, if `flushCommitLogTimed` is off."""
    flush_commit_log_least_pages: int = number(0, at_most=2**31 - 1)
    """Pages of 4 KiB that must be written before they are flushed; with 0, no message waits for others."""
    flush_commit_log_thorough_interval: int = count(10_000)
    """Milliseconds after which fewer pages are flushed too."""
    transient_store_pool_enable: bool = switch(False)
    """Whether messages are written to buffers in memory first. Only with ASYNC_FLUSH. A killed broker loses the
    messages in the buffers."""
    transient_store_pool_size: int = number(5, at_least=2, at_most=2**31 - 1)
    """The largest number of buffers, each as large as a commit log file. If all are in use, messages are refused."""
    fast_fail_if_no_buffer_in_store_pool: bool = switch(False)
    """Whether a new log file is refused if there is no buffer for it. If not, the buffers are written out first."""
    commit_interval_commit_log: int = count(200)
    """Milliseconds between writes from the buffers to the files, if `wakeCommitWhenPutMessage` is off."""
    wake_commit_when_put_message: bool = switch(True)
    """Whether a message starts such a write as soon as there are enough pages."""
    commit_commit_log_least_pages: int = number(4, at_most=2**31 - 1)
    """Pages of 4 KiB that must be in the buffers before they are written to the files."""
    commit_commit_log_thorough_interval: int = count(200)
    """Milliseconds after which fewer pages are written too."""
    flush_interval_consume_queue: int = count(1000)
    """Milliseconds between flushes of the consume queues and the checkpoint."""
    flush_consume_queue_least_pages: int = number(2, at_most=2**31 - 1)
    """Pages of new units from which on a queue is flushed."""
    flush_consume_queue_thorough_interval: int = count(60_000)
    """Milliseconds after which all queues are flushed."""

    # --- cleaning
    clean_resource_interval: int = count(10_000)
    """Milliseconds between two checks for expired files."""
    delete_when: str = hours("04")
    """Local hours in which expired files are deleted, as in 04 or 04;16."""
    file_reserved_time: int = number(72, at_most=2**31 - 1)
    """Hours after its last write at which a commit log file expires."""
    disk_max_used_space_ratio: int = number(75)
    """Percentage of the disk in use above which expired files are deleted at any hour. Limited to 10 to 95."""
    disk_space_clean_forcibly_ratio: int = number(85)
    """Percentage above which files are deleted before they expire; at least 30."""
    disk_space_warning_level_ratio: int = number(90)
    """Percentage above which no more messages are stored; at least 35."""
    clean_file_forcibly_enable: bool = switch(True)
    """Whether files may be deleted before they expire."""
    delete_file_batch_max: int = count(10)
    """The largest number of commit log files that are deleted in one round."""
    delete_commit_log_files_interval: int = number(100)
    """Milliseconds between two of these deletions."""
    delete_consume_queue_files_interval: int = number(100)
    """Milliseconds between deleting the files of one queue and those of the next."""
    redelete_hanged_file_interval: int = number(120_000)
    """Milliseconds until the deletion of a file that failed is tried again."""

    # --- recovery
    check_crc_on_recover: bool = switch(True, key="checkCRCOnRecover")
    """Whether recovery checks the checksums of bodies."""
    force_verify_prop_crc: bool = switch(False, key="forceVerifyPropCRC")
    """Whether recovery accepts only records that have a correct checksum over the whole record."""

    # --- reading
    max_transfer_bytes_on_message_in_memory: int = number(256 * 1024)
    """The largest answer to a pull, in bytes, if the messages are in memory."""
    max_transfer_count_on_message_in_memory: int = number(32)
    """The largest number of messages in such an answer."""
    max_transfer_bytes_on_message_in_disk: int = number(64 * 1024)
    """The largest answer to a pull, in bytes, if the messages are only on the disk."""
    max_transfer_count_on_message_in_disk: int = number(8)
    """The largest number of messages in such an answer."""
    access_message_in_memory_max_ratio: int = number(40)
    """Percentage of the machine's memory. The last part of the log, up to that size, counts as in memory."""
    max_queues: int = own(1_000_000)
    """The largest number of queues with messages, of all topics. Each takes some 2 KB of memory, and a file."""
    memory_size: int | None = own(None)
    """Bytes of memory to use for `accessMessageInMemoryMaxRatio`; None asks the machine."""
    max_filter_message_size: int = number(16_000)
    """Bytes of a consume queue that a read searches at least before it answers that no message matched."""
    travel_cq_file_num_when_get_message: int = count(1)
    """The largest number of consume queue files that one read searches."""

    # --- the broker around the store
    flush_delay_offset_interval: int = count(10_000)
    """Milliseconds between two writes of the offsets of the delay levels."""
    broker_role: BrokerRole = attrs.field(default=BrokerRole.ASYNC_MASTER, converter=BrokerRole)
