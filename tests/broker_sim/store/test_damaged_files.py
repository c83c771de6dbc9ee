"""Files of a store that are not what they should be: said by name and place, and nothing is thrown away."""

from __future__ import annotations

import struct

import pytest

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all
from tests.broker_sim.store.index_helpers import FOREVER, keyed

LOG = "commitlog/00000000000000000000"
QUEUE = "consumequeue/Orders/0/00000000000000000000"
CRC = {"enabled_append_prop_crc": True}


def closed_store(storage, count: int = 60, **settings) -> list:
    store = open_store(storage, **settings)
    results = put_all(store, [message(b"m%03d" % n, queue_id=n % 2) for n in range(count)])
    store.close()
    return results


def content(storage) -> dict[str, bytes]:
    """Every file but those that a start rewrites."""
    names = [f"commitlog/{name}" for name in storage.list("commitlog")]
    return {path: storage.read_bytes(path) for path in names}


def refused(storage, path: str, **settings) -> StoreCorruptError:
    """What a start says of the store; nothing of the log is changed by it."""
    before = content(storage)
    with pytest.raises(StoreCorruptError) as caught:
        open_store(storage, **settings)
    assert caught.value.path == path
    assert caught.value.offset is not None
    assert path.rpartition("/")[2] in str(caught.value)
    assert content(storage) == before
    return caught.value


def zeroed(data: bytearray) -> None:
    data[:] = bytes(len(data))


def of_something_else(data: bytearray) -> None:
    data[:] = (b"%PDF-1.7 this is no commit log\n" * len(data))[: len(data)]


def of_a_newer_format(data: bytearray) -> None:
    data[4:8] = b"\xda\xa3\x20\xaf"


def with_a_bit_flipped(data: bytearray) -> None:
    data[100] ^= 0x10


def with_a_huge_size(data: bytearray) -> None:
    data[:4] = b"\x7f\xff\xff\xff"


CHANGES = [zeroed, of_something_else, of_a_newer_format, with_a_bit_flipped, with_a_huge_size]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("count", [30, 60])
def test_threat_M12_a_log_file_that_was_changed_stops_the_start(change, unclean, count):
    storage = MemoryStorage()
    closed_store(storage, count, **CRC)
    if unclean:
        storage.open("abort", create=True)
    path = f"commitlog/{storage.list('commitlog')[-1]}"
    data = bytearray(storage.read_bytes(path))
    change(data)
    storage.open(path).pwrite(data, 0)
    assert refused(storage, path, **CRC).offset == 0


def test_threat_M12_a_cut_log_file_stops_the_start():
    for size in (4000, 1, 8192, 0):
        storage = MemoryStorage()
        closed_store(storage, 30)
        storage.open(LOG).truncate(size)
        assert refused(storage, LOG).offset == min(size, 4096)


@pytest.mark.parametrize("at", [1, 7, 8, 11])
def test_threat_M12_damaged_units_are_never_followed(at):
    storage = MemoryStorage()
    closed_store(storage, **CRC)
    file = storage.open(QUEUE)
    file.pwrite(bytes([file.pread(1, 60 + at)[0] ^ 0x41]), 60 + at)
    store = open_store(storage, **CRC)
    assert store.reads.get("Orders", 0, 0, 32).next_begin_offset == 3, "what stands before it can still be read"
    with pytest.raises(StoreCorruptError, match="Orders queue 0 cannot be read from offset 3 on"):
        store.reads.get("Orders", 0, 3, 32)
    assert bodies(store, queue_id=1) == [b"m%03d" % n for n in range(1, 60, 2)]


@pytest.mark.parametrize("count", [1, 32])
def test_threat_M12_a_unit_that_leads_behind_the_log_is_told_with_the_position_that_it_names(count):
    """Not with one at which nothing is wrong, neither the start of the log nor the next message."""
    storage = MemoryStorage()
    closed_store(storage, **CRC)
    position = 1 << 40
    storage.open(QUEUE).pwrite(struct.pack(">q", position), 60)
    store = open_store(storage, **CRC)
    with pytest.raises(StoreCorruptError, match=f"from offset 3 on: .* at position {position}, or the queue") as caught:
        store.reads.get("Orders", 0, 3, count)
    assert (caught.value.path, caught.value.offset) == ("commitlog", position)


@pytest.mark.parametrize("at", [0, 20, 60, 90, 110])
def test_threat_M12_rot_in_files_that_no_start_reads_is_told_when_it_is_met(at):
    storage = MemoryStorage()
    results = closed_store(storage, 160, **CRC)
    victim = results[4]
    file = storage.open(LOG)
    position = victim.physical_offset + at
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0x01]), position)
    storage.open("abort", create=True)  # then only the last file is read
    store = open_store(storage, **CRC)
    assert store.reads.get("Orders", 0, 0, 32).count == 2
    with pytest.raises(StoreCorruptError) as caught:
        store.reads.get("Orders", 0, 2, 32)
    assert (caught.value.path, caught.value.offset) == (LOG, victim.physical_offset)
    assert store.reads.get("Orders", 0, 3, 32).count == 7, "what stands behind it can be read"
    put_all(store, [message(b"new", queue_id=1)])
    assert bodies(store, queue_id=1)[-1] == b"new"


@pytest.mark.parametrize("at", [20, 60, 90, 110])
def test_threat_M12_rot_is_told_to_who_asks_by_position_or_by_key(at, caplog):
    storage = MemoryStorage()
    store = open_store(storage, **CRC)
    results = put_all(store, [keyed(n, f"k{n}", *["shared"][n > 9 :]) for n in range(160)])
    store.close()
    victim, other = results[4], results[5]
    file = storage.open(LOG)
    position = victim.physical_offset + at
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0x01]), position)
    storage.open("abort", create=True)  # then only the last file is read
    store = open_store(storage, **CRC)
    with pytest.raises(StoreCorruptError) as caught:
        store.reads.read(victim.physical_offset)
    assert (caught.value.path, caught.value.offset) == (LOG, victim.physical_offset)
    with pytest.raises(StoreCorruptError):
        store.keys.query("Orders", "k4", 32, *FOREVER)
    assert store.keys.query("Orders", "k5", 32, *FOREVER).records == [store.reads.read(other.physical_offset)]
    assert len(store.keys.query("Orders", "shared", 32, *FOREVER).records) == 9
    assert f"damaged at position {victim.physical_offset}" in caplog.text


@pytest.mark.parametrize("how", ["clean", "unclean", "without a summary"])
def test_threat_M12_rot_is_told_after_every_kind_of_start(how):
    storage = MemoryStorage()
    results = closed_store(storage, 160, **CRC)
    file = storage.open(LOG)
    position = results[4].physical_offset + 95
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0x01]), position)
    if how == "unclean":
        storage.open("abort", create=True)
    elif how != "clean" and storage.exists("queues.json"):
        storage.unlink("queues.json")
    with pytest.raises(StoreCorruptError) as caught:
        bodies(open_store(storage, **CRC))
    assert (caught.value.path, caught.value.offset) == (LOG, results[4].physical_offset)


def test_threat_M12_the_part_of_a_tail_that_a_crash_tore_is_cut():
    storage = MemoryStorage()
    store = open_store(storage, **CRC)
    results = put_all(store, [message(b"m%03d" % n) for n in range(10)])
    copy = storage.clone()
    copy.open(LOG).clear(results[7].physical_offset + 50)
    again = open_store(copy, **CRC)
    assert bodies(again) == [b"m%03d" % n for n in range(7)]
    assert again.written_position == results[7].physical_offset


def test_threat_M12_links_and_folders_in_place_of_files_stop_the_start(tmp_path):
    storage = RealStorage(tmp_path)
    closed_store(storage)
    target = tmp_path / LOG
    target.rename(tmp_path / "elsewhere")
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreCorruptError, match="is not a regular file") as caught:
        open_store(storage)
    assert (caught.value.path, caught.value.offset) == (LOG, 0)
    target.unlink()
    target.mkdir()
    with pytest.raises(StoreCorruptError, match="is not a regular file"):
        open_store(storage)
    target.rmdir()
    (tmp_path / "elsewhere").rename(target)
    store = open_store(storage)
    assert len(bodies(store)) == 30
    store.close()


def test_threat_M12_a_disk_that_cannot_be_read_is_told():
    storage = MemoryStorage()
    closed_store(storage)
    with storage.failing("write_bytes_atomic", code=5), pytest.raises(StoreError, match="the disk reports an error"):
        open_store(storage)
    assert len(bodies(open_store(storage))) == 30


# --- whole records ---------------------------------------------------------------------------------------


def items(count: int) -> list[BatchItem]:
    return [BatchItem(0, b"item %d" % n, b"KEYS\x01k%d\x02TAGS\x01A\x02" % n) for n in range(count)]


@pytest.mark.parametrize("batch", [False, True])
def test_ST17_every_byte_of_a_record_is_under_its_checksum(batch):
    storage = MemoryStorage()
    store = open_store(storage, **CRC)
    if batch:
        result = store.put_batch(message(b"", batch=items(3)))
        store.commit_pending()
        store.reput()
        first = result.offsets[0]
        size = result.offsets[1] - first
    else:
        result = put_all(store, [message(b"body", properties="KEYS\x01k\x02"), message(b"next")])[0]
        first, size = result.physical_offset, result.size
    assert store.reads.read(first, size).count(b"__CRC32#") == 1
    store.flushing.flush_all()
    for at in range(size):
        copy = storage.clone()
        file = copy.open(LOG)
        file.pwrite(bytes([file.pread(1, first + at)[0] ^ 0x04]), first + at)
        with pytest.raises(StoreCorruptError) as caught:
            open_store(copy, **CRC)
        assert (caught.value.path, caught.value.offset) == (LOG, first)


def test_ST17_a_store_that_got_its_checksums_later_is_read_whole():
    storage = MemoryStorage()
    closed_store(storage, 10)
    store = open_store(storage, **CRC)
    assert len(bodies(store)) == 5
    put_all(store, [message(b"with", queue_id=0)])
    store.close()
    again = open_store(storage, **CRC)
    assert bodies(again)[-1] == b"with"
    again.close()
    without = open_store(storage)
    put_all(without, [message(b"without", queue_id=0)])
    crashed = storage.clone()
    assert bodies(open_store(crashed, **CRC))[-2:] == [b"with", b"without"]


def test_ST17_a_record_that_lost_its_checksum_with_its_end_is_no_old_record():
    storage = MemoryStorage()
    store = open_store(storage, **CRC)
    results = put_all(store, [message(b"m%d" % n) for n in range(3)])
    copy = storage.clone()
    last = results[2].physical_offset + results[2].size
    copy.open(LOG).pwrite(bytes(20), last - 20)
    assert bodies(open_store(copy, **CRC)) == [b"m0", b"m1"]
