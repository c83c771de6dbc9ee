"""Opening after a stop or a crash: what is cut, what is rebuilt, what is refused."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

LOG = "commitlog/00000000000000000000"


def filled(count: int = 10, **settings) -> tuple[MemoryStorage, list]:
    """A store with some messages, closed cleanly, and where they stand."""
    storage = MemoryStorage()
    store = open_store(storage, **settings)
    results = put_all(store, [message(b"m%03d" % n, queue_id=n % 2) for n in range(count)])
    store.close()
    return storage, results


def flip(storage: MemoryStorage, position: int, path: str = LOG) -> None:
    file = storage.open(path)
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0xFF]), position)


def mark_unclean(storage: MemoryStorage) -> None:
    storage.open("abort", create=True).pwrite(b"1", 0)


def check_last_one_is_cut(storage: MemoryStorage, results: list) -> None:
    store = open_store(storage)
    assert store.written_position == results[-1].physical_offset
    assert store.reads.read(results[-1].physical_offset) is None
    assert [store.reads.max_offset("Orders", queue_id) for queue_id in range(2)] == [5, 4]
    assert bodies(store) == [b"m%03d" % n for n in range(0, 10, 2)]
    assert bodies(store, queue_id=1) == [b"m%03d" % n for n in range(1, 9, 2)]
    again = put_all(store, [message(b"again", queue_id=1)])[0]
    assert (again.physical_offset, again.queue_offset) == (results[-1].physical_offset, 4)
    store.close()
    assert bodies(open_store(storage), queue_id=1)[-1] == b"again"


def test_ST3_a_damaged_last_record_is_cut_after_a_clean_stop():
    storage, results = filled()
    flip(storage, results[-1].physical_offset + 90)
    check_last_one_is_cut(storage, results)


def test_ST4_a_damaged_last_record_is_cut_after_a_crash():
    storage, results = filled()
    mark_unclean(storage)
    flip(storage, results[-1].physical_offset + 90)
    check_last_one_is_cut(storage, results)


@pytest.mark.parametrize("at", [0, 4, 8, 28, 84, 88, 95, 99])
def test_ST4_damage_in_any_checked_field_is_seen(at):
    storage, results = filled()
    mark_unclean(storage)
    flip(storage, results[-1].physical_offset + at)
    check_last_one_is_cut(storage, results)


@pytest.mark.parametrize("at", range(0, 121, 3))
def test_ST4_with_the_checksum_of_whole_records_damage_anywhere_is_seen(at):
    storage, results = filled(enabled_append_prop_crc=True)
    assert results[-1].size == 121
    mark_unclean(storage)
    flip(storage, results[-1].physical_offset + at)
    store = open_store(storage, enabled_append_prop_crc=True, force_verify_prop_crc=True)
    assert store.written_position == results[-1].physical_offset


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("behind", [0, 1, 7])
def test_threat_M12_damage_before_valid_records_stops_the_broker(unclean, behind):
    storage, results = filled(60)
    if unclean:
        mark_unclean(storage)
    starts = sorted({result.physical_offset - result.physical_offset % 4096 for result in results})
    target = [result for result in results if result.physical_offset >= starts[-1]][behind]
    path = f"commitlog/{starts[-1]:020d}"
    flip(storage, target.physical_offset - starts[-1] + 90, path)
    before = storage.read_bytes(path)
    with pytest.raises(StoreCorruptError, match=r"is damaged at position .* valid record follows") as caught:
        open_store(storage)
    assert (caught.value.path, caught.value.offset) == (path, target.physical_offset - starts[-1])
    assert storage.read_bytes(path) == before
    with pytest.raises(StoreCorruptError):
        open_store(storage)


def test_threat_M12_a_missing_file_stops_the_broker():
    storage, _ = filled(160)
    names = storage.list("commitlog")
    storage.unlink(f"commitlog/{names[1]}")
    with pytest.raises(StoreCorruptError, match="does not continue"):
        open_store(storage)


def test_threat_M12_missing_last_files_stop_the_broker():
    storage, _ = filled(120)
    names = storage.list("commitlog")
    storage.unlink(f"commitlog/{names[-1]}")
    with pytest.raises(StoreCorruptError, match="had reached the disk up to"):
        open_store(storage)


def test_threat_M12_a_file_of_another_size_stops_the_broker():
    storage, _ = filled(120)
    storage.open(f"commitlog/{storage.list('commitlog')[0]}").truncate(4000)
    with pytest.raises(StoreCorruptError, match="has 4000 bytes where 4096 are configured"):
        open_store(storage)
    storage, _ = filled()
    with pytest.raises(StoreCorruptError, match="has 4096 bytes where 8192 are configured"):
        open_store(storage, mapped_file_size_commit_log=8192)


def test_a_killed_broker_loses_nothing_it_wrote():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"m%d" % n, queue_id=n % 3) for n in range(200)])
    again = open_store(storage.clone())
    for queue_id in range(3):
        assert bodies(again, queue_id=queue_id) == [b"m%d" % n for n in range(queue_id, 200, 3)]
    assert again.written_position == store.written_position


def test_messages_that_were_not_dispatched_come_into_their_queues():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"m%d" % n) for n in range(3)])
    for n in range(3, 120):
        store.put(message(b"m%d" % n))
    store.commit_pending()
    assert store.reads.max_offset("Orders", 0) == 3
    again = open_store(storage.clone())
    assert bodies(again) == [b"m%d" % n for n in range(120)]


def test_units_of_messages_that_are_gone_are_cut():
    storage = MemoryStorage()
    store = open_store(storage)
    results = put_all(store, [message(b"m%d" % n) for n in range(60)])
    copy = storage.clone()
    lost = results[47].physical_offset
    for name in copy.list("commitlog"):
        if int(name) + 4096 > lost:
            copy.open(f"commitlog/{name}").clear(max(0, lost - int(name)))
    again = open_store(copy)
    assert (again.written_position, again.reads.max_offset("Orders", 0)) == (lost, 47)
    assert put_all(again, [message(b"next")])[0].queue_offset == 47
    again.close()
    assert bodies(open_store(copy)) == [b"m%d" % n for n in range(47)] + [b"next"]


def test_lost_queues_are_built_anew():
    storage, _ = filled(60)
    for path in [f"consumequeue/Orders/0/{name}" for name in storage.list("consumequeue/Orders/0")]:
        storage.unlink(path)
    mark_unclean(storage)
    store = open_store(storage)
    # The checkpoint vouches for the queues, so only the last file is read; the gap tells that this was not enough.
    assert bodies(store) == [b"m%03d" % n for n in range(0, 60, 2)]
    assert bodies(store, queue_id=1) == [b"m%03d" % n for n in range(1, 60, 2)]


def test_a_lost_file_in_the_middle_of_a_queue_stops_the_broker():
    storage, _ = filled(120)
    names = storage.list("consumequeue/Orders/0")
    storage.unlink(f"consumequeue/Orders/0/{names[2]}")
    with pytest.raises(StoreCorruptError, match=r"consumequeue/Orders/0/.* does not continue"):
        open_store(storage)


def test_a_topic_deleted_and_made_anew_begins_again():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"old%d" % n) for n in range(5)])
    store.delete_topics(["Orders"])
    assert store.reads.max_offset("Orders", 0) == 0
    put_all(store, [message(b"new%d" % n) for n in range(3)])
    for unclean in (True, False):
        again = open_store(storage.clone() if unclean else storage)
        assert bodies(again) == [b"new0", b"new1", b"new2"]
        if unclean:
            store.close()


def test_a_log_without_files_takes_its_queues_along():
    storage, _ = filled()
    for name in storage.list("commitlog"):
        storage.unlink(f"commitlog/{name}")
    storage.unlink("checkpoint")
    store = open_store(storage)
    assert store.reads.max_offset("Orders", 0) == 0
    assert storage.list("consumequeue") == []
    assert put_all(store, [message()])[0].physical_offset == 0


def test_a_short_last_file_is_mended_after_a_crash_only():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"m%d" % n) for n in range(10)])
    copy = storage.clone()
    copy.open(LOG).truncate(2000)
    again = open_store(copy)
    assert bodies(again) == [b"m%d" % n for n in range(10)]
    assert copy.open(LOG).size() == 4096
    again.close()
    copy.open(LOG).truncate(2000)
    with pytest.raises(StoreCorruptError):
        open_store(copy)


def test_an_empty_last_file_is_no_damage():
    storage, _ = filled()
    storage.open("commitlog/00000000000000004096", create=True).truncate(4096)
    store = open_store(storage)
    assert len(bodies(store)) == 5
    assert storage.list("commitlog") == ["00000000000000000000"]
    store.close()
    storage.open("commitlog/00000000000000004096", create=True)
    assert len(bodies(open_store(storage))) == 5


def test_stored_time_never_goes_back():
    from rocketpy.seams import wall_clock

    storage = MemoryStorage()
    with wall_clock(lambda: 2_000_000_000_000):
        store = open_store(storage)
        first = put_all(store, [message()])[0]
    with wall_clock(lambda: 1_000_000_000_000):
        second = put_all(store, [message()])[0]
        store.close()
        third = put_all(open_store(storage), [message()])[0]
    assert first.store_timestamp == second.store_timestamp == third.store_timestamp == 2_000_000_000_000


def test_a_queue_that_begins_later_is_filled_up():
    settings = {"mapped_file_size_consume_queue": 20_000}
    storage, results = filled(60, **settings)
    first_kept = next(result for result in results if result.physical_offset >= 4096)
    storage.unlink(LOG)
    for queue_id in range(2):
        for name in storage.list(f"consumequeue/Orders/{queue_id}"):
            storage.unlink(f"consumequeue/Orders/{queue_id}/{name}")
    storage.unlink("checkpoint")
    mark_unclean(storage)
    store = open_store(storage, **settings)
    index = results.index(first_kept)
    offset = first_kept.queue_offset
    assert store.reads.log_start == 4096
    assert store.reads.min_offset("Orders", index % 2) == offset > 0
    assert bodies(store, queue_id=index % 2) == [b"m%03d" % n for n in range(index, 60, 2)]
    assert store.reads.get("Orders", index % 2, 0, 32).next_begin_offset == offset
    units = storage.open(f"consumequeue/Orders/{index % 2}/{storage.list(f'consumequeue/Orders/{index % 2}')[0]}")
    assert units.pread(20, 0) == bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)
    store.close()
    again = open_store(storage, **settings)
    assert again.reads.min_offset("Orders", index % 2) == offset
    assert bodies(again, queue_id=index % 2) == [b"m%03d" % n for n in range(index, 60, 2)]
