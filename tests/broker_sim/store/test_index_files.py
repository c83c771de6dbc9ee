"""Hashes and files of the key index are those of Java, bit by bit."""

from __future__ import annotations

import struct
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.seams import wall_clock
from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.properties import decode_properties
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.index.batch_keys import absolute
from rocketpy_broker_sim.store.index.file import IndexShape
from rocketpy_broker_sim.store.index.growth import GrowingIndexFile
from rocketpy_broker_sim.store.index.key_columns import KeyColumns
from rocketpy_broker_sim.store.index.keys import KeyHashes, hash_of
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.helpers import open_store, put_all
from tests.broker_sim.store.index_helpers import found, images, keyed


def key_hash(text: str) -> int:
    """What an index keeps of a text, by the definition; `test_index_hashes` compares it with Java."""
    return absolute(string_hash(text))


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
        hashed = key_hash(key)
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
    hashes, right = KeyHashes(), [key_hash(f"{topic}#{key}") for key in wanted]
    for _ in range(2):  # the second time from what was kept
        assert hashes.of(topic, properties.encode()) == right
        assert hashes.of_all([(topic, properties.encode(), 5, 6)]) == [(hashed, 5, 6) for hashed in right]


@given(st.lists(st.text("0123456789ABCDEF", min_size=32, max_size=32), max_size=20))
def test_hashes_of_unique_ids_are_those_of_java(ids):
    hashes = KeyHashes()
    alike = [f"{(ids or [''])[0][:24]}{each[24:]}" for each in ids]
    messages = [("Orders", f"A\x01b\x02UNIQ_KEY\x01{each}\x02".encode(), 0, 0) for each in [*ids, *alike, *ids]]
    assert hashes.of_all(messages) == [(hash_of("Orders", each), 0, 0) for each in [*ids, *alike, *ids]]


@pytest.mark.parametrize(
    "properties",
    [
        b"UNIQ_KEY\x01one\x02UNIQ_KEY\x01two\x02",
        b"UNIQ_KEY\x010123456789\x02X_UNIQ_KEY\x010123456788\x02",
        b"UNIQ_KEY\x010123456789\x02UNIQ_KEY\x01\x02",
        b"UNIQ_KEY\x010123456789",
        "UNIQ_KEY\x010123456789\x02A\x01ü\x02".encode(),
        "UNIQ_KEY\x0101234567ü9\x02".encode(),
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
    right = [key_hash(f"T#{key}") for key in wanted]
    hashes = KeyHashes()
    assert hashes.of("T", properties) == right
    assert [key for key, _, _ in hashes.of_all([("T", properties, 0, 0)] * 2)] == right * 2


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
            store.flushing.prepare()
            store.flushing.flush_all()
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
    file.append(KeyColumns.of([(1, 100, 5_000_000), (1, 200, 5_000_000 + 2**31 * 1000 + 5), (3, 300, 1_000)]))
    assert [entry.seconds for entry in file.entries()] == [0, 0x7FFFFFFF, 0]
    file.seal()
    file.flush()
    storage.open(file.path).pwrite(struct.pack(">i", 77), 40)  # slot 0, which is in use by nobody
    again = GrowingIndexFile(storage, "2" * 17, shape)
    again.load()
    assert again.head(0) == 0
    assert again.append(KeyColumns.of([(2, 400, 6_000_000)])) == 1
    assert again.entry(4).previous == 0


def test_a_file_of_apaches_sizes_takes_only_the_space_that_is_used(tmp_path):
    config = MessageStoreConfig(mapped_file_size_commit_log=1 << 20)
    assert IndexShape.of(config).size == 420_000_040
    for attempt in range(2):
        store = MessageStore(RealStorage(tmp_path), config)
        store.load()
        assert not (tmp_path / "index").exists() or attempt
        put_all(store, [keyed(attempt, "k")])
        assert len(found(store, "k")) == attempt + 1
        store.abandon() if attempt else store.close()
    store = MessageStore(RealStorage(tmp_path), config)  # what was killed is mended, through all of its slots
    store.load()
    assert len(found(store, "k")) == 2
    store.close()
    (path,) = (tmp_path / "index").iterdir()
    assert path.stat().st_size == 420_000_040
    assert path.stat().st_blocks * 512 < 200_000


def test_threat_M12_slots_that_name_an_entry_behind_the_last_lead_nowhere():
    """In a full file the number behind the last one counts as known, and there are no bytes at its place."""
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(60)])
    store.close()
    store = open_store(storage)
    assert store.index.files[0].is_full
    shape = IndexShape.of(store.config)
    full = storage.open(store.index.files[0].path)
    full.pwrite(struct.pack(">i", shape.entries) * shape.slots, 40)
    assert [found(store, f"k{n}") for n in range(5)] == [[]] * 5
    assert len(found(store, "k59")) == 1
