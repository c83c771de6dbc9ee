"""The key index: what it finds, and what of the checkpoint it decides."""

from __future__ import annotations

import errno
import struct

import attrs
import pytest

from rocketpy.seams import wall_clock
from rocketpy_broker_sim.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.index.file import IndexFile, IndexShape
from rocketpy_broker_sim.store.index.key_index import KeyIndex
from rocketpy_broker_sim.store.index.keys import hash_of
from rocketpy_broker_sim.store.running_flags import RunningFlag, RunningFlags
from rocketpy_broker_sim.store.steps import finish
from tests.broker_sim.store.helpers import OK, bodies, message, open_store, put_all, small_config
from tests.broker_sim.store.index_helpers import FOREVER, ROLLBACK, all_found, found, keyed


def test_ST16_messages_are_found_by_key_and_unique_id():
    store = open_store()
    puts = put_all(store, [keyed(n, f"k{n}", "shared") for n in range(5)])
    for number, put in enumerate(puts):
        assert found(store, f"k{number}") == [put.physical_offset]
        assert found(store, f"{number:032X}") == [put.physical_offset]
    assert found(store, "shared") == [put.physical_offset for put in puts]
    assert found(store, "k9") == found(store, "k1", topic="Other") == []


def test_ST16_the_newest_are_found_first_and_no_more_than_are_wanted():
    store = open_store(max_index_num=8)
    puts = put_all(store, [keyed(n, "same") for n in range(20)])
    assert len(found(store, "same")) == 20
    assert len(store.index.files) > 4
    newest = [put.physical_offset for put in reversed(puts)]
    for most in (1, 3, 12, 20, 64):
        assert store.index.find("Orders", "same", most, *FOREVER).positions == newest[:most]
    store.config.max_msgs_num_batch = 2
    assert store.index.find("Orders", "same", 64, *FOREVER).positions == newest[:2]
    assert store.index.find("Orders", "same", 0, *FOREVER).positions == []
    assert store.index.find("Orders", "same", -1, *FOREVER).positions == []


def test_ST16_messages_are_found_by_time_to_the_second():
    store = open_store(max_index_num=8)
    puts = []
    for number in range(20):
        with wall_clock(lambda now=1_700_000_000_000 + number * 10_000: now):
            puts += put_all(store, [keyed(number, "same")])
    for first, last in ((0, 19), (3, 3), (3, 8), (0, 0), (15, 19)):
        begin, end = (1_700_000_000_000 + at * 10_000 for at in (first, last))
        wanted = [put.physical_offset for put in puts[first : last + 1]]
        assert found(store, "same", span=(begin, end)) == wanted
        assert found(store, "same", span=(begin - 4000, end + 4000)) == wanted
        assert found(store, "same", span=(begin + 1000, begin + 9000)) == []
    assert found(store, "same", span=(0, 1)) == []


def test_ST16_an_empty_index_answers_that_nothing_is_there():
    store = open_store()
    assert store.index.find("Orders", "k", 64, *FOREVER) == ([], 0, 0)
    assert store.keys.query("Orders", "k", 64, *FOREVER) == ([], 0, 0)
    put_all(store, [message(b"without any key")])
    assert store.keys.query("Orders", "", 64, *FOREVER) == ([], 0, 0)
    store.close()


def test_ST16_a_position_that_the_log_has_no_more_gives_no_record():
    store = open_store()
    puts = put_all(store, [keyed(n, "same") for n in range(40)])
    for _ in range(20):
        store.flushing.prepare()
        store.flushing.flush_all()
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    kept = [put for put in puts if put.physical_offset >= store.reads.log_start]
    assert 0 < len(kept) < len(puts)
    answer = store.keys.query("Orders", "same", 64, *FOREVER)
    assert answer.records == [store.reads.read(put.physical_offset) for put in kept]
    assert answer.last_position == puts[-1].physical_offset
    assert answer.last_timestamp == puts[-1].store_timestamp


def test_rolled_back_messages_are_not_indexed_and_prepared_ones_are():
    store = open_store()
    put_all(store, [keyed(1, "back", sys_flag=ROLLBACK), keyed(2, "prepared", sys_flag=4)])
    assert found(store, "back") == []
    assert len(found(store, "prepared")) == 1


def test_keys_of_a_batch_are_found_one_by_one():
    store = open_store()
    items = [(0, b"body %d" % n, f"KEYS\x01b{n}\x02UNIQ_KEY\x01{n:032X}\x02".encode()) for n in range(5)]
    put = store.put_batch(message(b"", properties="", batch=items))
    assert put.status is OK
    store.commit_pending()
    store.reput()
    assert [found(store, f"b{n}") for n in range(5)] == [[position] for position in put.offsets]
    assert [found(store, f"{n:032X}") for n in range(5)] == [[position] for position in put.offsets]


# --- what it tolerates -----------------------------------------------------------------------------------


def test_ST15_the_checkpoint_is_written_and_read():
    storage = MemoryStorage()
    assert read_checkpoint(storage) == Checkpoint()
    assert attrs.astuple(Checkpoint()) == (*[0] * 5, *[None] * 5, -1)
    full = Checkpoint(
        log_timestamp=1,
        queue_timestamp=2,
        index_timestamp=3,
        master_flushed=4,
        confirmed=5,
        flushed=6,
        dispatched=7,
        sealed_from=8,
        indexed=9,
        index_end=10,
    )
    write_checkpoint(storage, full)
    assert read_checkpoint(storage) == full
    data = storage.read_bytes("checkpoint")
    assert (len(data), struct.unpack_from(">qqqqq", data)) == (4096, (1, 2, 3, 4, 5))
    storage.open("checkpoint").pwrite(struct.pack(">q", 99), 16)  # another broker moved on
    assert read_checkpoint(storage) == Checkpoint(
        log_timestamp=1, queue_timestamp=2, index_timestamp=99, master_flushed=4, confirmed=5
    )


def test_ST15_the_checkpoint_tells_the_time_of_the_newest_full_index_file():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=4)
    with wall_clock(lambda: 1_700_000_000_000):
        put_all(store, [keyed(1), keyed(2)])
    store.flushing.prepare()
    store.flushing.flush_all()
    assert read_checkpoint(storage).index_timestamp == 0
    for number in range(3, 6):
        with wall_clock(lambda now=1_700_000_000_000 + number: now):
            put_all(store, [keyed(number)])
    for _ in range(2):
        store.flushing.prepare()
        store.flushing.flush_all()
    assert read_checkpoint(storage).index_timestamp == 1_700_000_000_003
    store.close()
    checkpoint = read_checkpoint(storage)
    assert checkpoint.indexed == checkpoint.flushed == store.written_position
    assert checkpoint.index_timestamp == 1_700_000_000_003


def test_what_was_not_flushed_for_a_while_is_flushed_with_the_tenth_flush():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(1)])
    for _ in range(9):
        store.flushing.prepare()
        store.flushing.flush_all()
    assert read_checkpoint(storage).indexed is None
    store.flushing.prepare()
    store.flushing.flush_all()
    assert read_checkpoint(storage).indexed == store.written_position
    store.config.message_index_safe = True
    put_all(store, [keyed(2)])
    store.flushing.prepare()
    store.flushing.flush_all()
    assert read_checkpoint(storage).indexed == store.written_position


@pytest.mark.parametrize("operation", ["pwrite", "create", "truncate"])
def test_a_disk_that_refuses_the_index_does_not_refuse_messages(operation):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(0, "k0")])
    with storage.failing(operation, under="index/"):
        for number in range(1, 80):
            put_all(store, [keyed(number, f"k{number}")])
        assert len(bodies(store)) == 80
        assert store.index.failed == store.flags.has(RunningFlag.INDEX_ERROR)
        found(store, "k79")
        assert store.index.failed
        assert store.is_writable
    put_all(store, [keyed(80, "k80")])
    store.close()
    store = open_store(storage)
    assert not store.flags.bits
    assert all_found(store, 81)


def test_a_disk_that_refuses_twice_is_asked_a_third_time():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(0, "k0")])
    refusals = iter([True, True])

    def fault(operation: str, path: str, size: int) -> None:
        if operation == "pwrite" and path.startswith("index/") and next(refusals, False):
            raise OSError(errno.ENOSPC, "full", path)

    storage.fault = fault
    assert all_found(store, 1)
    assert not store.index.failed
    assert next(refusals, None) is None


def test_expired_files_go_and_the_newest_stays():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=8)
    puts = put_all(store, [keyed(n, f"k{n}") for n in range(40)])
    assert store.index.take_expired(1 << 40) is None  # nothing is flushed yet
    store.index.seal(everything=True)
    assert store.index.take_expired(1 << 40) is None  # a thread may be at work with what was sealed
    store.flushing.flush_all()
    count = len(store.index.files)
    assert store.index.take_expired(puts[2].physical_offset) is None
    taken = []
    while (file := store.index.take_expired(puts[20].physical_offset)) is not None:
        taken.append(file)
        file.delete()
    assert 2 < len(taken) < count - 1
    assert all(file.header.end_position < puts[20].physical_offset for file in taken)
    while (file := store.index.take_expired(1 << 40)) is not None:
        file.delete()
    (newest,) = store.index.files
    assert storage.list("index") == [newest.name]


def test_only_the_newest_file_stays_open():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=4)
    put_all(store, [keyed(n, "same") for n in range(40)])
    assert len(found(store, "same")) == 40
    held = [file for file in store.index.files if file._file is not None]
    assert held in ([], [store.index.files[-1]])


def test_an_index_can_be_read_by_another_while_it_grows():
    storage = MemoryStorage()
    config = small_config()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(5)])
    store.index.seal(everything=True)
    store.flushing.flush_all()
    put_all(store, [keyed(n, f"k{n}") for n in range(5, 9)])
    (name,) = storage.list("index")
    file = IndexFile(storage, name, IndexShape.of(config))
    file.load()
    assert len(list(file.entries())) == 10
    positions: list[int] = []
    finish(file.select(positions, hash_of("Orders", "k3"), 64, *FOREVER))
    assert positions == found(store, "k3")


def test_chains_of_a_damaged_file_that_go_in_circles_end():
    storage = MemoryStorage()
    config = small_config()
    store = open_store(storage)
    put_all(store, [keyed(n, "same", "other") for n in range(5)])
    store.close()
    (name,) = storage.list("index")
    file = IndexFile(storage, name, IndexShape.of(config))
    file.load()
    newest = file.head(hash_of("Orders", "same") % file.shape.slots)
    older = file.entry(newest).previous
    handle = storage.open(file.path)
    handle.pwrite(struct.pack(">i", newest), file.shape.entries_at + older * 20 + 16)
    handle.close()
    positions: list[int] = []
    finish(file.select(positions, hash_of("Orders", "same"), 64, *FOREVER))
    assert 0 < len(positions) == len(set(positions))


def test_nothing_is_written_before_the_first_key():
    storage = MemoryStorage()
    index = KeyIndex(storage, small_config(), RunningFlags())
    index.load(Checkpoint(), 0, 0, unclean=False)
    index.seal(everything=True)
    index.flush(0)
    assert storage.list("index") == []
