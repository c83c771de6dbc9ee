"""The next file of the log is there before it is needed, warmed where that is wanted, and nothing is lost by it."""

from __future__ import annotations

import errno
import os
import sys
import threading
from contextlib import nullcontext

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.store.disk.files_ahead import PAGE, WRITE, SpareFile
from rocketpy_broker_sim.store.disk.memory import MemoryFile, MemoryStorage, MemoryView
from rocketpy_broker_sim.store.disk.real import RealFile, RealStorage, RealView
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all
from tests.broker_sim.store.test_platforms import locked_kilobytes

FIRST, SECOND, THIRD = (f"{number * 4096:020d}" for number in range(3))
BIG = b"x" * 1500


def make_ahead(store) -> SpareFile:
    """What the service of the broker does in a thread."""
    spare = store.files_ahead.begin(nullcontext())
    while spare.advance():
        pass
    return spare


def watch(storage: MemoryStorage, *operations: str) -> list[tuple[str, str]]:
    seen = []
    storage.fault = lambda operation, path, size: seen.append((operation, path)) if operation in operations else None
    return seen


# --- making and taking


def test_a_roll_takes_the_file_that_was_made_ahead():
    storage = MemoryStorage()
    store = open_store(storage)
    assert not store.files_ahead.is_due  # nothing was written yet, and perhaps never will be
    put_all(store, [message(BIG)])
    store.flushing.commit_log.flush()
    assert store.files_ahead.is_due
    assert make_ahead(store).is_durable
    assert not store.files_ahead.is_due
    assert storage.list("commitlog") == [FIRST, SECOND]
    made = watch(storage, "create", "truncate", "sync_dir")
    put_all(store, [message(BIG) for _ in range(2)])
    assert [path for _, path in made if path.startswith("commitlog")] == []
    store.flushing.commit_log.flush()
    assert ("sync_dir", "commitlog") not in made  # the disk had its name before anything stood in it
    storage.fault = None
    assert store.files_ahead.is_due
    assert bodies(store) == [BIG] * 3
    store.close()
    assert bodies(open_store(storage)) == [BIG] * 3


def test_a_roll_is_told_so_that_the_next_file_can_be_made():
    store = open_store()
    rolls = []
    store.files_ahead.subscribe(lambda: rolls.append(store.files_ahead.is_due))
    put_all(store, [message(BIG) for _ in range(5)])
    assert rolls == [True, True, True]


def test_a_file_that_is_not_made_yet_is_made_by_who_needs_it():
    storage = MemoryStorage()
    store = open_store(storage, warm_maped_file_enable=True)
    put_all(store, [message(BIG)])
    spare = store.files_ahead.begin(nullcontext())
    put_all(store, [message(BIG) for _ in range(2)])
    assert storage.list("commitlog") == [FIRST, SECOND]
    assert not spare.advance()
    assert bodies(store) == [BIG] * 3
    synced = watch(storage, "sync_dir")
    store.flushing.commit_log.flush()
    assert synced == [("sync_dir", "commitlog")]


def test_zeros_never_come_over_what_was_written_meanwhile():
    storage = MemoryStorage()
    store = open_store(storage, warm_maped_file_enable=True)
    put_all(store, [message(BIG)])
    spare = store.files_ahead.begin(nullcontext())
    assert spare.advance()  # made, and now to be warmed
    put_all(store, [message(BIG) for _ in range(2)])
    assert not spare.advance()
    assert bodies(store) == [BIG] * 3


@pytest.mark.slow
def test_threads_warm_while_the_loop_rolls(tmp_path):
    store = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=8 * WRITE, warm_maped_file_enable=True)
    body = bytes(range(256)) * 1024
    put_all(store, [message(body)])
    for turn in range(1, 60):
        if store.files_ahead.is_due:
            spare = store.files_ahead.begin(threading.Lock())
            thread = threading.Thread(target=lambda spare=spare: all(iter(spare.advance, False)))
            thread.start()
            if turn % 2:
                thread.join()
        put_all(store, [message(body) for _ in range(3)])
    thread.join()
    assert set(bodies(store)) == {body}
    store.close()
    again = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=8 * WRITE)
    assert len(bodies(again)) == 1 + 59 * 3
    again.close()


def test_threat_L9_an_error_that_the_thread_is_told_is_told_to_the_log_too(monkeypatch):
    """As on Linux: each open descriptor of the file reports once that its pages could not be written."""
    store = open_store()
    put_all(store, [message(BIG)])
    spare = store.files_ahead.begin(nullcontext())
    told: list[MemoryFile] = []

    def fdatasync(self: MemoryFile) -> None:
        if not self._path.endswith(SECOND) or self in told:
            return
        told.append(self)
        if len(told) == 1:
            put_all(store, [message(BIG) for _ in range(2)])  # the loop takes the file while the thread flushes it
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(MemoryFile, "fdatasync", fdatasync)
    with pytest.raises(StoreError, match="making the next file"):
        spare.advance()
    store.files_ahead.give_up()
    with pytest.raises(StoreError, match="flushing the commit log"):
        store.flushing.commit_log.flush()
    assert not store.is_writable


def test_a_disk_that_refuses_is_told_and_the_log_makes_its_file_itself():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(BIG)])
    spare = store.files_ahead.begin(nullcontext())
    with (
        storage.failing("create", code=errno.EMFILE, under="commitlog"),
        pytest.raises(StoreError, match=r"making the next file of the commit log .* too many open files"),
    ):
        spare.advance()
    store.files_ahead.give_up()
    put_all(store, [message(BIG) for _ in range(2)])
    assert bodies(store) == [BIG] * 3


def test_a_disk_that_is_full_amid_the_warming_gets_its_room_back():
    storage = MemoryStorage()
    store = open_store(storage, mapped_file_size_commit_log=4 * WRITE, warm_maped_file_enable=True)
    put_all(store, [message(BIG)])
    spare = store.files_ahead.begin(nullcontext())
    name = f"{4 * WRITE:020d}"
    assert spare.advance()
    with (
        storage.failing("pwrite", under=f"commitlog/{name}", after=2),
        pytest.raises(StoreError, match="disk is full: free space"),
    ):
        spare.advance()
    assert storage.list("commitlog") == [FIRST, name]
    store.files_ahead.give_up()
    assert storage.list("commitlog") == [FIRST]
    assert store.files_ahead.is_due
    put_all(store, [message(b"z" * 60_000) for _ in range(6)])
    assert len(bodies(store)) == 7


# --- what is left when a broker stops


def test_a_clean_close_takes_the_unused_file_away():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(BIG)])
    make_ahead(store)
    store.close()
    assert storage.list("commitlog") == [FIRST]


@pytest.mark.parametrize("warm", [False, True])
def test_an_unused_file_is_no_damage(warm):
    storage = MemoryStorage()
    store = open_store(storage, warm_maped_file_enable=warm)
    put_all(store, [message(BIG)])
    spare = make_ahead(store)
    store.abandon()
    assert spare._file._file is None  # nobody else closes it
    assert storage.list("commitlog") == [FIRST, SECOND]
    for unclean in (True, False):
        copy = storage.clone()
        if not unclean:
            copy.unlink("abort")
        again = open_store(copy)
        assert bodies(again) == [BIG]
        put_all(again, [message(BIG) for _ in range(2)])
        again.close()
        assert bodies(open_store(copy)) == [BIG] * 3


@pytest.mark.parametrize("left", [None, 0, 100, 4096])
def test_an_unused_file_behind_one_that_a_crash_took_is_no_damage(left):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(BIG)])
    store.flushing.flush_all()
    put_all(store, [message(BIG) for _ in range(2)])
    make_ahead(store)
    store.abandon()
    assert storage.list("commitlog") == [FIRST, SECOND, THIRD]
    if left is None:
        storage.unlink(f"commitlog/{SECOND}")
    else:
        file = storage.open(f"commitlog/{SECOND}")
        file.truncate(0)
        file.truncate(left)
    again = open_store(storage)
    assert bodies(again) == [BIG] * 2
    put_all(again, [message(BIG)])
    again.close()
    assert bodies(open_store(storage)) == [BIG] * 3


# --- warming


@pytest.mark.parametrize(("flush", "pages", "flushes"), [("SYNC_FLUSH", 32, 5), ("ASYNC_FLUSH", 32, 1)])
def test_warming_writes_every_page_and_forces_them_in_time(flush, pages, flushes):
    storage = MemoryStorage()
    size = 8 * WRITE + 100
    store = open_store(
        storage,
        mapped_file_size_commit_log=size,
        warm_maped_file_enable=True,
        flush_disk_type=flush,
        flush_least_pages_when_warm_maped_file=pages,
    )
    put_all(store, [message(BIG)])
    name = f"commitlog/{size:020d}"
    done = []
    storage.fault = lambda operation, path, count: done.append((operation, count)) if path == name else None
    make_ahead(store)
    assert done[:2] == [("create", 0), ("truncate", size)]
    assert [count for operation, count in done if operation == "pwrite"] == [WRITE] * 8 + [100]
    assert [operation for operation, _ in done].count("fdatasync") == flushes + (flush == "SYNC_FLUSH")
    assert pages * PAGE == 2 * WRITE
    assert set(storage.read_bytes(name)) == {0}


def test_nothing_is_warmed_unless_it_is_asked_for():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(BIG)])
    written = watch(storage, "pwrite")
    make_ahead(store)
    assert written == []


@pytest.mark.skipif(sys.platform != "linux", reason="counts the locked pages as Linux tells them")
def test_pages_are_kept_in_memory_for_the_newest_files_alone(tmp_path):
    before = locked_kilobytes()
    store = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=64 * 1024, warm_maped_file_enable=True)
    body = b"x" * 40_000
    put_all(store, [message(body)])
    for turn in range(3):
        assert make_ahead(store).refusal is None
        assert locked_kilobytes() == before + (128 if turn else 64)  # the file that is written, and the next one
        put_all(store, [message(body)])
        assert bodies(store) == [body] * (turn + 2)
    make_ahead(store)
    assert locked_kilobytes() == before + 128
    store.close()
    assert locked_kilobytes() == before


def test_a_system_that_refuses_to_keep_pages_is_no_failure(monkeypatch):
    def refuse(view: MemoryView) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(MemoryView, "lock_in_memory", refuse)
    store = open_store(warm_maped_file_enable=True)
    put_all(store, [message(BIG)])
    spare = make_ahead(store)
    assert spare.refusal is not None
    assert spare.refusal.errno == errno.ENOMEM
    put_all(store, [message(BIG) for _ in range(2)])
    assert bodies(store) == [BIG] * 3


def test_a_file_taken_while_its_pages_are_brought_in_is_not_kept(tmp_path, monkeypatch):
    store = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=64 * 1024, warm_maped_file_enable=True)
    body = b"x" * 40_000
    put_all(store, [message(body)])
    keep = RealView.lock_in_memory

    def roll_meanwhile(view: RealView) -> None:
        put_all(store, [message(body)])
        keep(view)

    monkeypatch.setattr(RealView, "lock_in_memory", roll_meanwhile)
    before = locked_kilobytes()
    make_ahead(store)
    assert locked_kilobytes() == before
    assert bodies(store) == [body] * 2
    store.close()


def test_files_of_both_storages_are_warmed_by_what_they_have():
    assert {name for name in dir(MemoryFile) if not name.startswith("_")} == {
        name for name in dir(RealFile) if not name.startswith("_")
    }
    assert {name for name in dir(MemoryView) if not name.startswith("_")} == {
        name for name in dir(RealView) if not name.startswith("_")
    }
