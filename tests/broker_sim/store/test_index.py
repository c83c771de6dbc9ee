"""The key index: what it finds, what its files look like, and what it bears."""

from __future__ import annotations

import errno
import struct
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.seams import wall_clock
from rocketpy.wire.java_hash import index_key_hash
from rocketpy.wire.properties import decode_properties
from rocketpy_broker_sim.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from rocketpy_broker_sim.store.index import KeyIndex
from rocketpy_broker_sim.store.index_file import IndexFile, IndexShape
from rocketpy_broker_sim.store.index_growth import GrowingIndexFile
from rocketpy_broker_sim.store.index_keys import KeyHashes, hash_of
from rocketpy_broker_sim.store.memory import MemoryStorage
from rocketpy_broker_sim.store.running_flags import RunningFlag, RunningFlags
from tests.broker_sim.store.helpers import OK, bodies, message, open_store, put_all, small_config

FOREVER = (0, 1 << 62)
ROLLBACK = 0xC


def keyed(number: int, *keys: str, topic: str = "Orders", **fields):
    text = f"KEYS\x01{' '.join(keys)}\x02" if keys else ""
    return message(b"body %d" % number, topic=topic, properties=f"{text}UNIQ_KEY\x01{number:032X}\x02", **fields)


def found(store, key: str, *, topic: str = "Orders", most: int = 64, span: tuple[int, int] = FOREVER) -> list[int]:
    return sorted(store.index.find(topic, key, most, *span).positions)


def images(storage: MemoryStorage) -> list[bytes]:
    return [storage.read_bytes(f"index/{name}") for name in storage.list("index")]


class JavaIndex:
    """What Apache's broker would write, put for put, into arrays of bytes."""

    def __init__(self, slots: int, entries: int) -> None:
        self.slots, self.entries = slots, entries
        self.files: list[bytearray] = []
        self.header = [0, 0, 0, 0, 0, 1]

    def put(self, key: str, position: int, timestamp: int) -> None:
        if not self.files or self.header[5] >= self.entries:
            last = self.header
            self.header = [last[1], last[1], last[3], last[3], 0, 1] if self.files else [0, 0, 0, 0, 0, 1]
            self.files.append(bytearray(40 + self.slots * 4 + self.entries * 20))
        image, header = self.files[-1], self.header
        hashed = index_key_hash(key)
        slot_at = 40 + hashed % self.slots * 4
        before = struct.unpack_from(">i", image, slot_at)[0]
        seconds = 0 if header[0] <= 0 else max(0, min((timestamp - header[0]) // 1000, 0x7FFFFFFF))
        number = header[5]
        struct.pack_into(">iqii", image, 40 + self.slots * 4 + number * 20, hashed, position, seconds, before)
        struct.pack_into(">i", image, slot_at, number)
        if number == 1:
            header[0], header[2] = timestamp, position
        header[1], header[3], header[4], header[5] = timestamp, position, header[4] + (not before), number + 1
        struct.pack_into(">qqqqii", image, 0, *header)


# --- ST16: putting and finding ---------------------------------------------------------------------------


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
    assert store.query("Orders", "k", 64, *FOREVER) == ([], 0, 0)
    put_all(store, [message(b"without any key")])
    assert store.query("Orders", "", 64, *FOREVER) == ([], 0, 0)
    store.close()


def test_ST16_a_position_that_the_log_has_no_more_gives_no_record():
    store = open_store()
    puts = put_all(store, [keyed(n, "same") for n in range(40)])
    for _ in range(20):
        store.prepare_flush()
        store.flush()
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    kept = [put for put in puts if put.physical_offset >= store.log_start]
    assert 0 < len(kept) < len(puts)
    answer = store.query("Orders", "same", 64, *FOREVER)
    assert answer.records == [store.read(put.physical_offset) for put in kept]
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


# --- hashing ---------------------------------------------------------------------------------------------


@given(
    st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=20),
    st.lists(st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=60), max_size=4),
    st.sampled_from(["Orders", "x", "Zürich", "%RETRY%group"]),
)
def test_hashes_are_those_of_java(unique, keys, topic):
    properties = f"A\x01b\x02UNIQ_KEY\x01{unique}\x02KEYS\x01{' '.join(keys)}\x02"
    known = decode_properties(properties)
    wanted = [known["UNIQ_KEY"]] if "UNIQ_KEY" in known else []
    wanted += [key for key in known.get("KEYS", "").split(" ") if key]
    hashes = KeyHashes()
    for _ in range(2):  # the second time from what was kept
        assert hashes.of(topic, properties.encode()) == [index_key_hash(f"{topic}#{key}") for key in wanted]


@given(st.lists(st.text("0123456789ABCDEF", min_size=32, max_size=32), max_size=20))
def test_hashes_of_unique_ids_are_those_of_java(ids):
    hashes = KeyHashes()
    for each in ids:
        assert hashes.of("Orders", f"UNIQ_KEY\x01{each}\x02".encode()) == [hash_of("Orders", each)]


@pytest.mark.parametrize(
    "properties",
    [
        b"UNIQ_KEY\x01one\x02UNIQ_KEY\x01two\x02",
        b"UNIQ_KEY\x01one\x02X_UNIQ_KEY\x01two\x02",
        b"UNIQ_KEY\x01one\x02UNIQ_KEY\x01\x02",
        b"UNIQ_KEY\x01one",
        b"X_UNIQ_KEY\x01one\x02",
        b"KEYS\x01a b\x02MYKEYS\x01c\x02",
        b"KEYS\x01\x02",
        b"KEYS\x01  a   b ",
    ],
)
def test_properties_are_read_as_java_reads_them(properties):
    known = decode_properties(properties.decode())
    wanted = [known["UNIQ_KEY"]] if "UNIQ_KEY" in known else []
    wanted += [key for key in known.get("KEYS", "").split(" ") if key]
    assert KeyHashes().of("T", properties) == [index_key_hash(f"T#{key}") for key in wanted]


# --- the files -------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=3), st.integers(-4000, 70_000)), max_size=60),
    st.integers(1, 20),
    st.integers(2, 12),
)
def test_files_are_those_that_java_would_write(messages, slots, entries):
    storage, java, now = MemoryStorage(), JavaIndex(slots, entries), 1_700_000_000_000
    store = open_store(storage, max_hash_slot_num=slots, max_index_num=entries, mapped_file_size_commit_log=65536)
    for number, (keys, pause) in enumerate(messages):
        now += pause
        with wall_clock(lambda now=now: now):
            (put,) = put_all(store, [keyed(number, *(f"k{key}" for key in keys))])
        for key in (f"{number:032X}", *(f"k{key}" for key in keys)):
            java.put(f"Orders#{key}", put.physical_offset, put.store_timestamp)
        if number % 7 == 0:
            store.prepare_flush()
            store.flush()
    store.close()
    assert images(storage) == [bytes(image) for image in java.files]
    names = storage.list("index")
    assert all(one < other for one, other in pairwise(names))
    assert {len(name) for name in names} <= {17}


def test_a_file_is_named_by_the_local_time_of_its_making():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=3)
    with wall_clock(lambda: 1_700_000_000_042):
        put_all(store, [keyed(n) for n in range(5)])
        store.close()
    first = time.strftime("%Y%m%d%H%M%S", time.localtime(1_700_000_000)) + "042"
    assert storage.list("index") == [first, str(int(first) + 1), str(int(first) + 2)]


def test_times_and_slots_are_kept_within_bounds():
    storage = MemoryStorage()
    shape = IndexShape(2, 10)
    file = GrowingIndexFile(storage, "2" * 17, shape)
    file.create()
    file.append([(1, 100, 5_000_000), (1, 200, 5_000_000 + 2**31 * 1000 + 5), (3, 300, 1_000)])
    assert [entry.seconds for entry in file.entries()] == [0, 0x7FFFFFFF, 0]
    file.seal()
    file.flush()
    storage.open(file.path).pwrite(struct.pack(">i", 77), 40)  # slot 0, which is in use by nobody
    again = GrowingIndexFile(storage, "2" * 17, shape)
    again.load()
    assert again.head(0) == 0
    assert again.append([(2, 400, 6_000_000)]) == 1
    assert again.entry(4).previous == 0


# --- reopening -------------------------------------------------------------------------------------------


def all_found(store, count: int) -> bool:
    return all(len(found(store, f"{n:032X}")) == 1 and len(found(store, f"k{n}")) == 1 for n in range(count))


@pytest.mark.parametrize("flushes", [0, 1, 10, 25])
def test_nothing_is_missing_or_double_after_a_kill(flushes):
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=30)
    for number in range(50):
        put_all(store, [keyed(number, f"k{number}")])
        if number < flushes * 2:
            store.prepare_flush()
            store.flush()
    wanted = None
    for _ in range(3):
        left = storage.clone()
        again = open_store(left, max_index_num=30)
        assert all_found(again, 50)
        again.close()
        wanted = wanted or images(left)
        assert images(left) == wanted
        storage = left.clone()
    store.close()
    assert len(wanted) == 4


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("after", range(12))
def test_a_crash_amid_a_flush_leaves_no_slot_that_leads_nowhere(operation, after):
    storage = MemoryStorage()
    store = open_store(storage, max_hash_slot_num=3000, max_index_num=60)
    put_all(store, [keyed(n, f"k{n}", "same") for n in range(10)])
    store.index.seal(everything=True)
    store.flush()
    put_all(store, [keyed(n, f"k{n}", "same") for n in range(10, 19)])
    store.index.seal(everything=True)
    with storage.failing(operation, code=errno.EIO, under="index/", after=after):
        store.flush()
    left = storage.clone()
    again = open_store(left, max_hash_slot_num=3000, max_index_num=60)
    assert all_found(again, 19)
    assert len(found(again, "same")) == 19
    again.close()
    files = images(left)
    fresh = left.clone()
    for name in fresh.list("index"):
        fresh.unlink(f"index/{name}")
    open_store(fresh, max_hash_slot_num=3000, max_index_num=60).close()
    assert images(fresh) == files


def test_a_deleted_index_is_built_anew_from_the_log():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(40)])
    store.close()
    before = images(storage)
    for name in storage.list("index"):
        storage.unlink(f"index/{name}")
    open_store(storage).close()
    assert len(before) > 1
    assert images(storage) == before


def test_the_newest_file_deleted_is_built_anew():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(40)])
    store.close()
    before = images(storage)
    storage.unlink(f"index/{storage.list('index')[-1]}")
    open_store(storage).close()
    assert images(storage) == before


def test_an_index_of_other_sizes_is_built_anew():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(30)])
    store.close()
    store = open_store(storage, max_hash_slot_num=7, max_index_num=1000)
    assert all_found(store, 30)
    store.close()
    assert [len(image) for image in images(storage)] == [IndexShape(7, 1000).size]


def test_an_unfinished_new_file_is_made_again():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(5)])
    store.close()
    storage.open("index/99990101000000000", create=True)
    store = open_store(storage)
    assert all_found(store, 5)
    assert "99990101000000000" not in storage.list("index")


def test_an_index_ahead_of_a_shortened_log_loses_what_the_log_lost():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=30)
    puts = put_all(store, [keyed(n, f"k{n}") for n in range(22)])
    store.close()
    cut = puts[12].physical_offset
    storage.unlink("checkpoint")
    for name in storage.list("commitlog"):
        storage.open(f"commitlog/{name}").clear(max(0, cut - int(name)))
    store = open_store(storage, max_index_num=30)
    assert store.written_position == cut
    assert all_found(store, 12)
    assert found(store, "k12") == []
    put_all(store, [keyed(n, f"k{n}") for n in range(12, 22)])
    assert all_found(store, 22)
    store.close()


def test_a_store_without_keys_is_not_read_again_at_every_start(monkeypatch):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"no key") for _ in range(50)])
    store.close()
    read = []
    monkeypatch.setattr(KeyIndex, "catch_up", lambda self, records: read.extend(records))
    store = open_store(storage)
    assert store.index.position == store.written_position
    assert read == []
    assert not storage.list("index")


def test_an_index_that_was_switched_off_catches_up():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(5)])
    store.close()
    store = open_store(storage, message_index_enable=False)
    put_all(store, [keyed(n, f"k{n}") for n in range(5, 12)])
    assert found(store, "k1") == found(store, "k6") == []
    store.close()
    store = open_store(storage)
    assert all_found(store, 12)


# --- what it bears ---------------------------------------------------------------------------------------


def test_ST15_the_checkpoint_is_written_and_read():
    storage = MemoryStorage()
    assert read_checkpoint(storage) == Checkpoint()
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
    store.prepare_flush()
    store.flush()
    assert read_checkpoint(storage).index_timestamp == 0
    for number in range(3, 6):
        with wall_clock(lambda now=1_700_000_000_000 + number: now):
            put_all(store, [keyed(number)])
    for _ in range(2):
        store.prepare_flush()
        store.flush()
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
        store.prepare_flush()
        store.flush()
    assert read_checkpoint(storage).indexed is None
    store.prepare_flush()
    store.flush()
    assert read_checkpoint(storage).indexed == store.written_position
    store.config.message_index_safe = True
    put_all(store, [keyed(2)])
    store.prepare_flush()
    store.flush()
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
    store.flush()
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
    held = [file for file in store.index.files if file._file is not None or file._view is not None]
    assert held in ([], [store.index.files[-1]])


def test_an_index_can_be_read_by_another_while_it_grows():
    storage = MemoryStorage()
    config = small_config()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(5)])
    store.index.seal(everything=True)
    store.flush()
    put_all(store, [keyed(n, f"k{n}") for n in range(5, 9)])
    (name,) = storage.list("index")
    file = IndexFile(storage, name, IndexShape.of(config))
    file.load()
    assert len(list(file.entries())) == 10
    positions: list[int] = []
    file.select(positions, hash_of("Orders", "k3"), 64, *FOREVER)
    assert positions == found(store, "k3")


def test_nothing_is_written_before_the_first_key():
    storage = MemoryStorage()
    index = KeyIndex(storage, small_config(), RunningFlags())
    index.load(Checkpoint(), 0, 0, unclean=False)
    index.seal(everything=True)
    index.flush(0)
    assert storage.list("index") == []
