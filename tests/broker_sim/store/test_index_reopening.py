"""The key index after a kill, during a flush, without its files, with too many of them."""

from __future__ import annotations

import errno

import pytest

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.index.file import IndexShape
from rocketpy_broker_sim.store.index.key_index import KeyIndex
from tests.broker_sim.store.helpers import message, open_store, put_all
from tests.broker_sim.store.index_helpers import all_found, found, images, keyed


@pytest.mark.parametrize("flushes", [0, 1, 10, 25])
def test_nothing_is_missing_or_double_after_a_kill(flushes):
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=30)
    for number in range(50):
        put_all(store, [keyed(number, f"k{number}")])
        if number < flushes * 2:
            store.flushing.prepare()
            store.flushing.flush_all()
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
    store.flushing.flush_all()
    put_all(store, [keyed(n, f"k{n}", "same") for n in range(10, 19)])
    store.index.seal(everything=True)
    with storage.failing(operation, code=errno.EIO, under="index/", after=after):
        store.flushing.flush_all()
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


def test_unfinished_new_files_are_made_again():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(5)])
    store.close()
    before = storage.list("index")
    storage.open("index/99990101000000000", create=True)
    storage.open("index/99990101000000001", create=True).truncate(30)
    store = open_store(storage)
    assert all_found(store, 5)
    assert storage.list("index") == before


def test_an_index_ahead_of_a_shortened_log_loses_what_the_log_lost():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=30)
    puts = put_all(store, [keyed(n, f"k{n}") for n in range(22)])
    store.close()
    cut = puts[12].physical_offset
    storage.unlink("checkpoint")
    storage.open("abort", create=True)
    for name in storage.list("commitlog"):
        storage.open(f"commitlog/{name}").clear(max(0, cut - int(name)))
    store = open_store(storage, max_index_num=30)
    assert store.written_position == cut
    assert all_found(store, 12)
    assert found(store, "k12") == []
    put_all(store, [keyed(n, f"k{n}") for n in range(12, 22)])
    assert all_found(store, 22)
    store.close()


def test_an_index_that_was_closed_loses_the_last_message_where_the_log_lost_it():
    storage = MemoryStorage()
    store = open_store(storage)
    last = put_all(store, [keyed(n, f"k{n}") for n in range(10)])[-1].physical_offset
    store.close()
    storage.open(f"commitlog/{0:020d}").pwrite(b"\xff\xff", last + 90)
    store = open_store(storage)
    assert store.written_position == last
    assert all_found(store, 9)
    assert found(store, "k9") == []
    put_all(store, [keyed(10, "k10")])
    assert found(store, "k9") == []
    assert found(store, "k10") == [last]


def test_a_store_without_keys_is_not_read_again_at_every_start(monkeypatch):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"no key") for _ in range(50)])
    store.close()
    read = []
    monkeypatch.setattr(KeyIndex, "put_records", lambda self, records: read.extend(records))
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


def test_a_file_counts_only_after_the_disk_knows_the_names_of_all():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=8)
    put_all(store, [keyed(n, f"k{n}") for n in range(10)])
    found(store, "k1")
    asked: list[tuple[str, str]] = []
    storage.fault = lambda operation, path, size: asked.append((operation, path))
    store.index.seal(everything=True)
    store.flushing.flush_all()
    of_index = [each for each in asked if each[1].startswith("index")]
    assert of_index[0] == ("sync_dir", "index")
    assert ("sync_dir", "index") not in of_index[1:]
    assert asked.index(("sync_dir", "")) < asked.index(of_index[1])
    # Of each file: the entries reach the disk, then slots are written and reach it, then the header.
    first = [operation for operation, path in of_index if path == of_index[1][1]]
    assert first[0] == first[-1] == "fdatasync"
    assert first.count("fdatasync") == 3
    assert first[-2:] == ["pwrite", "fdatasync"]


def test_a_short_last_file_is_made_again_and_the_others_stay():
    storage = MemoryStorage()
    store = open_store(storage, max_index_num=8)
    put_all(store, [keyed(n, f"k{n}") for n in range(10)])
    store.close()
    before = storage.list("index")
    image = storage.read_bytes(f"index/{before[0]}")
    storage.open(f"index/{before[-1]}").truncate(100)
    store = open_store(storage, max_index_num=8)
    assert all_found(store, 10)
    assert [storage.list("index")[0], storage.read_bytes(f"index/{before[0]}")] == [before[0], image]
