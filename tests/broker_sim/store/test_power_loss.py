"""What power losses and kills did to stores, here and at RocketMQ's users: each as one small story."""

from __future__ import annotations

from random import Random

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.config import BrokerConfig, FlushDiskType
from rocketpy_broker_sim.store.checkpoint import PATH, read_checkpoint
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all
from tests.crash.sim_disk import SimDisk

SETTINGS = {"enabled_append_prop_crc": True, "max_hash_slot_num": 8, "max_index_num": 32}
SYNC = {**SETTINGS, "flush_disk_type": FlushDiskType.SYNC_FLUSH}
LOG = "commitlog/00000000000000000000"
SECOND = "commitlog/00000000000000004096"


def send(store, *texts: bytes, queue_id: int = 0, topic: str = "Orders") -> list:
    """Put, flush and dispatch: what a send under SYNC_FLUSH is answered after."""
    results = put_all(store, [message(text, queue_id=queue_id, topic=topic) for text in texts])
    store.flushing.commit_log.flush()
    store.reput()
    return results


# --- what RocketMQ's users met ---------------------------------------------------------------------------


def test_no_gap_of_dispatch_after_an_abnormal_stop():
    """The log was flushed, the queues were behind it, and the process ended."""
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    put_all(store, [message(b"m%03d" % n) for n in range(40)])
    store.flushing.flush_all()
    for n in range(40, 120):
        store.put(message(b"m%03d" % n))
    store.commit_pending()
    store.flushing.commit_log.flush()
    again = open_store(storage.clone(), **SETTINGS)
    assert bodies(again) == [b"m%03d" % n for n in range(120)]
    assert put_all(again, [message(b"next")])[0].queue_offset == 120


def test_offsets_of_queues_are_right_after_two_crashes():
    """The second crash came before anything was flushed after the first."""
    disk = SimDisk()
    store = open_store(disk, **SYNC)
    send(store, b"a", b"b")
    put_all(store, [message(b"lost")])
    first = disk.left_none()
    store = open_store(first, **SYNC)
    assert bodies(store) == [b"a", b"b"]
    assert send(store, b"c")[0].queue_offset == 2
    put_all(store, [message(b"lost again"), message(b"and again")])
    second = first.left_none()
    store = open_store(second, **SYNC)
    assert bodies(store) == [b"a", b"b", b"c"]
    assert send(store, b"d")[0].queue_offset == 3
    assert bodies(open_store(second.left_none(), **SYNC)) == [b"a", b"b", b"c", b"d"]


def test_a_checkpoint_ahead_of_the_queues_hides_nothing():
    """Units are gone that the checkpoint vouches for, and no newer record shows the gap."""
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    put_all(store, [message(b"q%d-%02d" % (n % 2, n), queue_id=n % 2) for n in range(60)])
    put_all(store, [message(b"x" * 300, topic="Bills") for _ in range(40)])
    store.flushing.flush_all()
    crashed = storage.clone()
    names = crashed.list("consumequeue/Orders/1")
    crashed.unlink(f"consumequeue/Orders/1/{names[-1]}")
    again = open_store(crashed, **SETTINGS)
    assert bodies(again, queue_id=1) == [b"q1-%02d" % n for n in range(1, 60, 2)]


@pytest.mark.parametrize("unclean", [False, True])
def test_a_queue_that_was_deleted_behind_the_brokers_back_is_built_anew(unclean):
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    put_all(store, [message(b"%02d" % n, queue_id=n % 3) for n in range(30)])
    put_all(store, [message(b"x" * 300, topic="Bills") for _ in range(60)])
    store.close()
    if unclean:
        storage.open("abort", create=True)
    for name in storage.list("consumequeue/Orders/2"):
        storage.unlink(f"consumequeue/Orders/2/{name}")
    storage.remove_dir("consumequeue/Orders/2")
    again = open_store(storage, **SETTINGS)
    assert bodies(again, queue_id=2) == [b"%02d" % n for n in range(2, 30, 3)]
    assert len(bodies(again, topic="Bills")) == 60


def test_the_tail_of_the_file_before_is_dispatched_too():
    """The log had just rolled, and the last messages of the file before were not in their queue yet."""
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    put_all(store, [message(b"x" * 900) for _ in range(3)])
    store.flushing.flush_all()
    for text in (b"y" * 700, b"z" * 900):
        store.put(message(text))
    store.commit_pending()
    store.flushing.commit_log.flush()
    assert storage.exists(SECOND)
    again = open_store(storage.clone(), **SETTINGS)
    assert [text[:1] for text in bodies(again)] == [b"x", b"x", b"x", b"y", b"z"]


# --- what simulated power losses found here --------------------------------------------------------------


def test_the_folders_of_a_new_store_are_there_after_its_first_send():
    disk = SimDisk()
    store = open_store(disk, **SYNC)
    send(store, b"first")
    assert bodies(open_store(disk.left_none(), **SYNC)) == [b"first"]


def test_the_folder_of_the_tables_is_there_after_the_first_save():
    disk = SimDisk()
    table = TopicTable(BrokerConfig(), disk)
    table.mark_changed()
    table.persist()
    assert disk.left_none().exists("config/topics.json")


def test_the_folder_of_the_tables_is_synced_though_it_was_made_before_a_failure():
    disk = SimDisk()
    table = TopicTable(BrokerConfig(), disk)
    table.mark_changed()
    with disk.failing("sync_dir"), pytest.raises(StoreError):
        table.persist()
    table.persist()
    assert disk.left_none().exists("config/topics.json")


@pytest.mark.parametrize("damage", ["missing", "short", "empty"])
def test_new_files_that_did_not_reach_the_disk_are_mended(damage):
    disk = SimDisk()
    store = open_store(disk, **SETTINGS)
    put_all(store, [message(b"a" * 900) for _ in range(4)])
    store.flushing.flush_all()
    put_all(store, [message(b"b" * 900) for _ in range(12)])
    left = disk.left_all()
    names = left.list("commitlog")
    left.plant(f"commitlog/{names[2]}", {"missing": None, "short": bytes(100), "empty": b""}[damage])
    again = open_store(left, **SETTINGS)
    kept = bodies(again)
    assert [text[:1] for text in kept[:4]] == [b"a"] * 4
    assert 4 <= len(kept) < 16
    put_all(again, [message(b"next")])
    again.close()
    assert bodies(open_store(left, **SETTINGS)) == [*kept, b"next"]


def test_a_filler_is_kept_by_every_recovery():
    """The log had closed a file, and the next one was still empty."""
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    put_all(store, [message(b"x" * 3000)])
    put_all(store, [message(b"y" * 3000)])
    crashed = storage.clone()
    crashed.open(SECOND).clear(0)
    first = open_store(crashed, **SETTINGS)
    assert first.written_position == 4096
    before = {path: crashed.read_bytes(path) for path in (LOG, PATH)}
    first.abandon()
    assert open_store(crashed, **SETTINGS).written_position == 4096
    assert {path: crashed.read_bytes(path) for path in before} == before


def test_what_was_cut_off_stays_cut_though_the_power_fails_again():
    disk = SimDisk()
    store = open_store(disk, **SETTINGS)
    results = put_all(store, [message(b"old%d" % n) for n in range(5)])
    left = disk.left_all()
    data = bytearray(left.read_bytes(LOG))
    data[results[1].physical_offset + 90] ^= 0xFF
    left.plant(LOG, bytes(data))
    again = open_store(left, **SETTINGS)
    assert bodies(again) == [b"old0"]
    put_all(again, [message(b"new1")])
    again.flushing.commit_log.flush()
    assert bodies(open_store(left.left_none(), **SETTINGS)) == [b"old0", b"new1"]


def test_pages_that_a_failed_flush_gave_up_are_written_again():
    disk = SimDisk()
    store = open_store(disk, **SYNC)
    send(store, b"kept")
    put_all(store, [message(b"unknown")])
    with disk.failing("sync", under="commitlog"), pytest.raises(StoreError):
        store.flushing.commit_log.flush()
    store.abandon()
    again = open_store(disk, **SYNC)  # the same system: its pages still look written
    assert bodies(again) == [b"kept", b"unknown"]
    send(again, b"later")
    assert bodies(open_store(disk.left_none(), **SYNC)) == [b"kept", b"unknown", b"later"]


def test_a_log_that_lost_everything_goes_on_where_it_stood():
    disk = SimDisk()
    store = open_store(disk, **SETTINGS)
    put_all(store, [message(b"x" * 3000) for _ in range(2)])
    left = disk.left_all()
    left.plant(LOG, None)
    left.plant(SECOND, bytes(4096))
    for _ in range(3):
        again = open_store(left, **SETTINGS)
        assert (again.reads.log_start, again.written_position, again.reads.max_offset("Orders", 0)) == (4096, 4096, 1)
        assert again.reads.min_offset("Orders", 0) == 1, "what the unit led to is gone"
        again.abandon()
    again = open_store(left, **SETTINGS)
    assert put_all(again, [message(b"next")])[0].physical_offset == 4096


def test_the_time_of_the_last_record_is_known_though_it_stands_in_the_file_before():
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    put_all(store, [message(b"x" * 3000)])
    result = put_all(store, [message(b"y" * 900)])[0]
    store.flushing.flush_all()
    crashed = storage.clone()
    crashed.open("commitlog/00000000000000008192", create=True).truncate(4096)
    time = read_checkpoint(crashed).log_timestamp
    assert time == result.store_timestamp
    open_store(crashed, **SETTINGS).abandon()
    assert read_checkpoint(crashed).log_timestamp == time


def test_groups_do_not_stand_behind_what_survived():
    storage = MemoryStorage()
    table = ConsumerOffsetTable(BrokerConfig(), storage)
    for queue_id, offset in ((0, 9), (1, 3)):
        table.commit("group", "Orders", queue_id, offset)
    ends = {("Orders", 0): 5, ("Orders", 1): 3}
    table.clamp(lambda topic, queue_id: ends[topic, queue_id])
    assert table.queues("group", "Orders") == {0: 5, 1: 3}
    assert table.changed


@pytest.mark.slow
def test_what_was_cut_off_stays_away_though_the_power_fails_before_the_next_flush():
    """Of two records that nobody had promised the first was lost; another of its size then stands before the second."""
    disk = SimDisk()
    store = open_store(disk, **SYNC)
    send(store, b"kept")
    store.flushing.flush_all()
    position = put_all(store, [message(b"x" * 600), message(b"y" * 600)])[0].physical_offset
    left = disk.left_all()
    left.plant(LOG, left.files()[LOG][:position] + bytes(300) + left.files()[LOG][position + 300 :])
    store = open_store(left, **SYNC)
    assert bodies(store) == [b"kept"]
    store.put(message(b"n" * 600))
    store.commit_pending()
    found = {tuple(bodies(open_store(left.left_some(Random(seed)), **SYNC))) for seed in range(400)}
    assert found == {(b"kept",), (b"kept", b"n" * 600)}


def test_a_chunk_that_was_taken_back_stays_away_though_the_power_fails():
    """Its first part was written, the next file of the log could not be made."""
    disk = SimDisk()
    store = open_store(disk, **SYNC)
    send(store, b"kept")
    for text in (b"x" * 100, b"y" * 3700):
        store.put(message(text))
    with disk.failing("resize", under="commitlog"), pytest.raises(StoreError):
        store.commit_pending()
    for seed in range(60):
        assert bodies(open_store(disk.left_some(Random(seed)), **SYNC)) == [b"kept"]


def test_what_was_taken_back_does_not_come_back_beside_what_followed():
    """The disk fills in the middle of a write."""
    disk = SimDisk()
    store = open_store(disk, **SYNC)
    send(store, b"kept")
    store.put(message(b"refused"))
    cuts = iter([40])
    disk.fault = lambda what, path, size: next(cuts, None) if what == "write" else None
    with pytest.raises(StoreError):
        store.commit_pending()
    disk.fault = None
    send(store, b"after")
    for left in (disk.left_none(), disk.left_all()):
        assert bodies(open_store(left, **SYNC)) == [b"kept", b"after"]
