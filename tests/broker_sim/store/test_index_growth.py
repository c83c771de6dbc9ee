"""An index file that grows: its entries are those that one after the other would be, and a flush brings to its slots
what was sealed, whatever is appended meanwhile.
"""

from __future__ import annotations

import struct
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.index.file import IndexShape
from rocketpy_broker_sim.store.index.growth import GrowingIndexFile
from rocketpy_broker_sim.store.index.key_columns import IndexKey, KeyColumns
from rocketpy_broker_sim.store.index.slot_memory import PAGE, SlotMemory, runs_of

NAME = "2" * 17
SHAPE = IndexShape(3 * PAGE - 7, 500)
START = 1_700_000_000_000
KEYS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 5), st.sampled_from([PAGE, 2 * PAGE + 1, SHAPE.slots, 0x7FFFFFFF])),
        st.integers(0, 1 << 40),
        st.integers(START, START + 5_000),
    ),
    max_size=12,
)


def grown(storage: MemoryStorage | None = None, shape: IndexShape = SHAPE) -> GrowingIndexFile:
    file = GrowingIndexFile(storage or MemoryStorage(), NAME, shape)
    file.create()
    return file


def image_of(keys: list[IndexKey], named: int, shape: IndexShape = SHAPE) -> bytes:
    """A file with entries, the first of which are named by slots and header: written one after the other."""
    image, heads = bytearray(shape.size), dict[int, int]()
    for number, (hashed, position, time) in enumerate(keys, 1):
        slot = hashed % shape.slots
        seconds = 0 if number == 1 else max(0, (time - keys[0][2]) // 1000)
        before = heads.get(slot, 0)
        struct.pack_into(">iqii", image, shape.entries_at + number * 20, hashed, position, seconds, before)
        heads[slot] = number
        if number <= named:
            struct.pack_into(">i", image, 40 + slot * 4, number)
    if named:
        slots = len({hashed % shape.slots for hashed, _, _ in keys[:named]})
        first, last = keys[0], keys[named - 1]
        struct.pack_into(">qqqqii", image, 0, first[2], last[2], first[1], last[1], slots, named + 1)
    return bytes(image)


@settings(max_examples=60)
@given(st.lists(st.one_of(KEYS, st.sampled_from(["seal", "flush", "close"])), max_size=20))
def test_a_flush_brings_what_was_sealed_and_nothing_else(steps: list[list[IndexKey] | str]) -> None:
    storage = MemoryStorage()
    file, keys, sealed, flushed = grown(storage), list[IndexKey](), None, 0
    for step in steps:
        if isinstance(step, list):
            assert file.append(KeyColumns.of(step)) == len(step)
            keys += step
        elif step == "seal" and sealed is None and keys:
            file.seal()
            sealed = len(keys)
        elif step == "flush":
            file.flush()
            flushed, sealed = flushed if sealed is None else sealed, None
        elif step == "close":
            file.close()
        assert storage.read_bytes(file.path) == image_of(keys, flushed)
        whole = image_of(keys, len(keys))
        for slot in {hashed % SHAPE.slots for hashed, _, _ in keys} | {7, PAGE}:
            assert file.head(slot) == struct.unpack_from(">i", whole, 40 + slot * 4)[0]


def test_what_is_appended_amid_a_flush_is_not_named_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    file, keys = grown(storage), [(slot, slot, START) for slot in (3, 5, 3, 2 * PAGE, 2 * PAGE + 1)]
    copy = SlotMemory.copy

    def copying(self: SlotMemory, begin: int, end: int) -> array[int]:
        more = [(3, 100, START), (3, 101, START), (2 * PAGE, 102, START), (PAGE, 103, START)]
        file.append(KeyColumns.of(more))
        keys.extend(more)
        return copy(self, begin, end)

    file.append(KeyColumns.of(keys))
    file.seal()
    named = len(keys)
    monkeypatch.setattr(SlotMemory, "copy", copying)
    file.flush()
    assert len(keys) > named
    assert storage.read_bytes(file.path) == image_of(keys, named)
    monkeypatch.undo()
    file.seal()
    file.flush()
    assert storage.read_bytes(file.path) == image_of(keys, len(keys))


@pytest.mark.parametrize("by", ["append", "seal", "flush"])
def test_a_full_file_that_is_closed_still_knows_what_no_flush_has_brought_to_it(by: str) -> None:
    file = grown(shape=IndexShape(10, 4))
    file.append(KeyColumns.of([(3, 1, START), (13, 2, START), (5, 3, START)]))
    assert file.is_full
    if by != "append":
        file.seal()
    if by == "flush":
        file.flush()
    file.close()
    assert [file.head(slot) for slot in range(10)] == [0, 0, 0, 2, 0, 3, 0, 0, 0, 0]


def test_a_file_that_was_opened_again_looks_at_its_slots_before_it_changes_them() -> None:
    storage, shape = MemoryStorage(), IndexShape(2 * PAGE, 500)
    keys = [(number * 37, number, START) for number in range(100)]
    for begin in range(0, 100, 20):
        file = GrowingIndexFile(storage, NAME, shape)
        file.load() if begin else file.create()
        file.append(KeyColumns.of(keys[begin : begin + 20]))
        file.seal()
        file.flush()
    assert storage.read_bytes(file.path) == image_of(keys, 100, shape)


@given(st.sets(st.integers(0, 300 * PAGE - 1), max_size=60), st.integers(0, PAGE - 1))
def test_runs_hold_the_pages_of_all_places_and_no_others(places: set[int], short: int) -> None:
    count = 300 * PAGE - short
    places = {place for place in places if place < count}
    runs = list(runs_of(places, count))
    pages = [page for begin, end in runs for page in range(begin // PAGE, -(-end // PAGE))]
    assert pages == sorted({place // PAGE for place in places})
    assert all(begin % PAGE == 0 and (end % PAGE == 0 or end == count) for begin, end in runs)
    assert all(0 < end - begin <= 64 * PAGE for begin, end in runs)
