"""Files by position, and rows of them: found, rolled, cut, dropped; what lies beyond an end is refused, not written."""

from __future__ import annotations

import errno
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, StoreError
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.store import append
from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.put_result import PutMessageStatus
from tests.broker_sim.store.helpers import OK, bodies, message, open_store, put_all

SIZE = 1024


@pytest.fixture(params=["memory", "disk"])
def storage(request, tmp_path):
    return MemoryStorage() if request.param == "memory" else RealStorage(tmp_path)


def row_of(storage, *starts: int) -> MappedFileQueue:
    """A row whose files begin at the given positions; each byte is the number of its file."""
    row = MappedFileQueue(storage, "row", SIZE)
    for start in starts:
        row.find_or_create(start).write(bytes([start // SIZE % 251]) * SIZE, 0)
    return row


def names(storage) -> list[int]:
    return [int(name) for name in storage.list("row")]


# --- ST13: rows


@pytest.mark.parametrize("first", [0, 7 * SIZE])
def test_ST13_a_file_is_found_by_any_position_in_it(storage, first):
    row = row_of(storage, *(first + number * SIZE for number in range(5)))
    assert (row.start, row.end) == (first, first + 5 * SIZE)
    for number in range(5):
        for within in (0, 1, SIZE - 1):
            file = row.find(first + number * SIZE + within)
            assert file is row.files[number]
    for outside in (first - 1, first + 5 * SIZE, -1):
        assert row.find(outside) is None
    row.close()


def test_ST13_an_empty_row_finds_nothing(storage):
    row = MappedFileQueue(storage, "row", SIZE)
    row.load()
    assert (row.start, row.end, row.find(0)) == (0, 0, None)


def test_ST13_a_row_rolls_to_files_that_have_their_size_at_once(storage):
    row = row_of(storage, 0)
    for number in range(1, 4):
        file = row.find_or_create(number * SIZE + 5)
        assert (file.start, file.end) == (number * SIZE, (number + 1) * SIZE)
        assert file.read(0, 2 * SIZE) == bytes(SIZE)
        assert row.find_or_create(number * SIZE) is file
    assert names(storage) == [0, 1024, 2048, 3072]
    row.close()


def test_ST13_a_row_never_leaves_a_gap(storage):
    row = row_of(storage, 0)
    with pytest.raises(OSError, match="would not continue row") as caught:
        row.find_or_create(2 * SIZE)
    assert caught.value.errno == errno.EINVAL
    assert names(storage) == [0]
    row.close()


def test_ST13_a_row_whose_first_file_is_not_at_zero_is_loaded(storage):
    row_of(storage, 3 * SIZE, 4 * SIZE).close()
    row = MappedFileQueue(storage, "row", SIZE)
    assert not row.load()
    assert (row.start, row.end) == (3 * SIZE, 5 * SIZE)
    assert row.find(4 * SIZE).read(10, 3) == b"\x04\x04\x04"
    assert row.find_or_create(5 * SIZE).start == 5 * SIZE
    row.close()


def test_ST13_files_before_a_position_are_dropped_and_the_last_one_never(storage):
    row = row_of(storage, *(number * SIZE for number in range(4)))
    assert row.delete_first(SIZE - 1) is None
    assert row.delete_first(SIZE) == "row"
    assert row.delete_first(SIZE) is None
    while row.delete_first(10 * SIZE) is not None:
        pass
    assert names(storage) == [3 * SIZE]
    assert (row.start, row.end) == (3 * SIZE, 4 * SIZE)
    row.close()


def test_ST13_a_file_that_cannot_be_dropped_stays():
    storage = MemoryStorage()
    row = row_of(storage, 0, SIZE)
    with storage.failing("unlink", code=errno.EIO), pytest.raises(OSError, match="Input/output"):
        row.delete_first(SIZE)
    assert row.find(5) is not None
    assert names(storage) == [0, SIZE]


@pytest.mark.parametrize(
    ("position", "left", "changed"),
    [(0, [], True), (1, [0], True), (SIZE, [0], True), (2 * SIZE - 1, [0, SIZE], True), (4 * SIZE, None, False)],
)
def test_ST13_a_row_is_cut_and_zero_behind_the_cut(storage, position, left, changed):
    row = row_of(storage, *(number * SIZE for number in range(1, 5)))
    for file in row.files:
        file.write(b"\xff" * SIZE, 0)
    row.close()
    moved = [] if left is None else left
    assert row.cut(position + SIZE) == changed
    assert names(storage) == ([SIZE * number for number in range(1, 5)] if left is None else [s + SIZE for s in moved])
    if row.files:
        kept = position + SIZE - row.files[-1].start
        assert row.files[-1].read(0, SIZE) == b"\xff" * min(kept, SIZE) + bytes(SIZE - min(kept, SIZE))
        assert not row.cut(position + SIZE)
    row.close()


def test_ST13_a_row_that_was_deleted_begins_again_anywhere(storage):
    row = row_of(storage, 0, SIZE)
    row.delete()
    assert (names(storage), row.start, row.end) == ([], 0, 0)
    assert row.find_or_create(9 * SIZE + 1).start == 9 * SIZE
    assert (row.start, row.end) == (9 * SIZE, 10 * SIZE)
    row.close()


@given(st.data())
def test_ST13_whatever_is_written_is_found_again(data):
    storage = MemoryStorage()
    row = MappedFileQueue(storage, "row", 16)
    model = bytearray()
    for _ in range(data.draw(st.integers(1, 20))):
        if model and data.draw(st.booleans()):
            end = data.draw(st.integers(0, len(model)))
            row.cut(end)
            del model[end:]
        piece = data.draw(st.binary(min_size=1, max_size=9))
        if len(model) % 16 + len(piece) > 16:
            model += bytes(16 - len(model) % 16)
            row.find_or_create(len(model))
        file = row.find_or_create(len(model))
        file.write(piece, len(model) - file.start)
        model += piece
    again = MappedFileQueue(storage, "row", 16)
    again.load()
    assert b"".join(file.read(0, 16) for file in again.files)[: len(model)] == bytes(model)


# --- ST18: one file, and what goes wrong


def test_ST18_bytes_go_where_they_are_put_and_nowhere_else(storage):
    file = MappedFile(storage, "file", 0, SIZE)
    file.create()
    file.write(b"abc", 100)
    file.write(b"end", SIZE - 3)
    assert file.read(0, SIZE) == bytes(100) + b"abc" + bytes(SIZE - 106) + b"end"
    assert file.read(99, 5) == b"\0abc\0"
    file.write(b"ABC", 100)
    assert file.read(100, 3) == b"ABC"
    file.close()
    assert file.read(100, 3) == b"ABC"
    file.close()


@pytest.mark.parametrize(("position", "count"), [(SIZE - 2, 3), (SIZE, 1), (SIZE + 5, 1), (0, SIZE + 1), (-1, 1)])
def test_ST18_nothing_is_written_beyond_the_end(storage, position, count):
    file = MappedFile(storage, "file", 0, SIZE)
    file.create()
    with pytest.raises(OSError, match="File too large") as caught:
        file.write(b"x" * count, position)
    assert caught.value.errno == errno.EFBIG
    assert file.read(0, 2 * SIZE) == bytes(SIZE)
    assert file.read(SIZE - 2, 10) == b"\0\0"  # and reading stops there
    file.close()


def test_ST18_a_flush_that_fails_is_told_and_the_file_stays_readable():
    storage = MemoryStorage()
    row = row_of(storage, 0, SIZE)
    with storage.failing("fdatasync", code=errno.EIO), pytest.raises(OSError, match="Input/output"):
        row.flush(0, 2 * SIZE)
    assert row.find(0).read(0, 2) == b"\0\0"
    row.flush(0, 2 * SIZE)
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    with storage.failing("fdatasync", code=errno.EIO), pytest.raises(StoreError):
        store.flushing.commit_log.flush()
    assert store.put(message()).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert bodies(store) == [b"kept"]


@pytest.mark.parametrize("error", [LocalProtocolError("no record"), RuntimeError("a bug"), KeyboardInterrupt()])
@pytest.mark.parametrize("crc", [False, True])
def test_ST18_a_record_that_cannot_be_made_leaves_no_hole(monkeypatch, error, crc):
    def fail(*_args: object, **_fields: object) -> bytes:
        raise error

    storage = MemoryStorage()
    store = open_store(storage, enabled_append_prop_crc=crc)
    put_all(store, [message(b"before")])
    items = [BatchItem(0, b"%d" % number, b"") for number in range(3)]
    for name in ("encode_record", "encode_batch_records", "tags_code_of", "DispatchRequest"):
        with monkeypatch.context() as patch:
            patch.setattr(append, name, fail)
            for put, what in (
                (store.put, message(b"lost" * 300)),  # would have rolled
                (store.put, message(b"lost", properties="TAGS\x01A")),
                (store.put_batch, message(b"", batch=[item._replace(properties=b"TAGS\x01A") for item in items])),
            ):
                with suppress(RuntimeError, KeyboardInterrupt):
                    assert put(what).status in (PutMessageStatus.MESSAGE_ILLEGAL, OK)
        store.commit_pending()
        store.reput()
    put_all(store, [message(b"after")])
    found = bodies(store)
    assert (found[0], found[-1]) == (b"before", b"after")
    store.abandon()
    again = open_store(storage, enabled_append_prop_crc=crc)
    assert bodies(again) == found
    put_all(again, [message(b"last")])


# --- ST19: one loop appends, threads flush


def test_ST19_threads_flush_while_one_loop_appends_rolls_and_drops(tmp_path):
    """What Java guards with locks: here one loop changes a row, and threads walk the files it had when they came."""
    row = MappedFileQueue(RealStorage(tmp_path), "row", 4096)
    written, stop, errors, rounds = 0, threading.Event(), [], []

    def flush() -> None:
        count = 0
        while not stop.is_set():
            try:
                row.flush(0, written, apart=True)
            except FileNotFoundError:
                pass  # the loop dropped the file meanwhile: who flushes takes that for what it is
            except (OSError, ValueError, RuntimeError) as exc:
                errors.append(exc)
                return
            count += 1
        rounds.append(count)

    threads = [threading.Thread(target=flush) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(2000):
            piece = b"%07d|" % number
            file = row.find_or_create(written)
            file.write(piece, written - file.start)
            written += len(piece)
            assert file.read(written - len(piece) - file.start, len(piece)) == piece
            if number % 600 == 599:
                row.delete_first(row.start + 4096)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert len(rounds) == 3
    assert row.start > 0
    again = MappedFileQueue(RealStorage(tmp_path), "row", 4096)
    assert not again.load()
    kept = b"".join(file.read(0, 4096) for file in again.files)[: written - row.start]
    assert kept == b"".join(b"%07d|" % number for number in range(row.start // 8, 2000))
    row.close()
    again.close()


def test_ST19_many_flushers_of_one_store_corrupt_nothing(tmp_path):
    store = open_store(
        RealStorage(tmp_path), mapped_file_size_commit_log=64 * 1024, mapped_file_size_consume_queue=2000
    )
    stop, lock, errors = threading.Event(), threading.Lock(), []

    def flush(whole: bool) -> None:
        while not stop.is_set():
            try:
                with lock:  # one flush at a time, as the broker's services see to
                    store.flushing.flush_all() if whole else store.flushing.commit_log.flush()
            except (StoreError, OSError, RuntimeError) as exc:
                errors.append(exc)
                return

    threads = [threading.Thread(target=flush, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(250):
            results = put_all(store, [message(b"%d-%d" % (number, k) * 20, queue_id=k) for k in range(8)])
            for result in results:
                record = store.reads.read(result.physical_offset, result.size)
                assert record is not None
                assert b"%d-" % number in record
            assert store.flushed_position <= store.written_position
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert errors == []
    store.abandon()
    again = open_store(
        RealStorage(tmp_path), mapped_file_size_commit_log=64 * 1024, mapped_file_size_consume_queue=2000
    )
    for k in range(8):
        assert bodies(again, queue_id=k) == [b"%d-%d" % (number, k) * 20 for number in range(250)]
    again.close()
