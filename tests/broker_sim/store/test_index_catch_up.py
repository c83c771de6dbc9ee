"""A key index far behind its log: it catches up in steps, and finds everything in the end."""

from __future__ import annotations

import errno
import os

import pytest

from rocketpy.seams import wall_clock
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.store.disk.memory import MemoryFile, MemoryStorage
from rocketpy_broker_sim.store.index import catch_up as index_catch_up
from rocketpy_broker_sim.store.index import key_index
from rocketpy_broker_sim.store.index.growth import GrowingIndexFile
from rocketpy_broker_sim.store.index.key_columns import KeyColumns
from rocketpy_broker_sim.store.log.scan import LogScan
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageStatus
from rocketpy_broker_sim.store.running_flags import RunningFlag
from tests.broker_sim.store.helpers import message, open_store, put_all
from tests.broker_sim.store.index_helpers import all_found, found, images, keyed


@pytest.fixture(autouse=True)
def nothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_catch_up, "AT_ONCE", 0)


def without_index(count: int) -> tuple[MemoryStorage, list[bytes]]:
    """A store that was stopped and whose index was deleted, and what the index had been."""
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(count)])
    store.close()
    before = images(storage)
    for name in storage.list("index"):
        storage.unlink(f"index/{name}")
    return storage, before


def finish(store: MessageStore, most: int = 7) -> int:
    steps = 1
    while store.index_catch_up.step(most):
        steps += 1
    return steps


def test_it_is_built_in_steps_to_what_it_was():
    storage, before = without_index(60)
    store = open_store(storage)
    assert store.index.is_behind
    assert found(store, "k5") == []
    assert finish(store) == 9
    assert not store.index.is_behind
    assert all_found(store, 60)
    assert not store.index_catch_up.step(7)
    store.close()
    assert images(storage) == before


def test_messages_before_the_end_of_the_index_are_passed_over():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [keyed(n, f"k{n}") for n in range(20)])
    finish(store)
    assert found(store, "k3")  # what waited is written now
    before = images(storage)
    store.index.put_records(list(LogScan(store._log.row, 0, store.config)))
    assert all_found(store, 20)
    assert images(storage) == before


def test_messages_that_come_meanwhile_are_indexed_once_and_in_order():
    with wall_clock(lambda: 1_700_000_000_000):
        storage, _ = without_index(30)
        store = open_store(storage)
        for number in range(30, 90, 3):
            put_all(store, [keyed(n, f"k{n}") for n in range(number, number + 3)])
            store.index_catch_up.step(4)
        assert store.index.is_behind
        finish(store)
        put_all(store, [keyed(90, "k90")])
        assert all_found(store, 91)
        store.close()
        _, at_once = without_index(91)
    assert images(storage) == at_once


@pytest.mark.parametrize("kill", [False, True])
def test_it_goes_on_where_it_stood_after_a_restart(kill):
    storage, before = without_index(60)
    store = open_store(storage)
    store.index_catch_up.step(25)
    store.index.seal(everything=True)
    store.flushing.flush_all()
    position = store.index.position
    store.abandon() if kill else store.close()
    store = open_store(storage)
    assert store.index.position == position
    assert store.index.is_behind
    finish(store)
    assert all_found(store, 60)
    store.close()
    assert images(storage) == before


def test_what_is_cleaned_meanwhile_is_left_out():
    storage, _ = without_index(60)
    store = open_store(storage)
    store.index_catch_up.step(2)
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    start = store.reads.log_start
    assert start > store.index.position
    finish(store)
    assert not store.index.is_behind
    newest = store.index.files[-1].header
    assert newest.end_position > start
    assert found(store, "k59")
    assert found(store, "k30") == []


def test_a_damaged_record_is_passed_over():
    storage, _ = without_index(40)
    store = open_store(storage)
    first, second = (put_all(store, [keyed(n, f"k{n}")])[0] for n in (40, 41))
    put_all(store, [keyed(42, "k42")])
    size = store.config.mapped_file_size_commit_log
    for put in (first, second):
        start = put.physical_offset - put.physical_offset % size
        storage.open(f"commitlog/{start:020d}").pwrite(b"\xff" * 50, put.physical_offset - start)
    finish(store)
    assert not store.index.is_behind
    assert all_found(store, 40)
    assert found(store, "k40") == found(store, "k41") == []
    assert len(found(store, "k42")) == 1


def test_a_disk_that_refuses_ends_it():
    storage, _ = without_index(40)
    store = open_store(storage)
    with storage.failing("pwrite", under="index/"):
        assert store.index_catch_up.step(1000)
        assert store.index.failed
        assert not store.index_catch_up.step(1000)
    put_all(store, [message(b"taken")])
    store.close()
    store = open_store(storage)
    finish(store)
    assert all_found(store, 40)


def test_a_level_index_has_nothing_to_catch_up_with():
    store = open_store()
    put_all(store, [keyed(0, "k0")])
    assert not store.index.is_behind
    assert not store.index_catch_up.step(10)
    assert all_found(store, 1)


def test_threat_L9_a_log_that_cannot_be_read_leaves_the_index_as_it_is_and_nothing_else(monkeypatch):
    storage, _ = without_index(30)
    store = open_store(storage)
    store.index_catch_up.step(4)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "pread", unreadable)
        assert store.index_catch_up.step(40)  # it may have been a file that is gone: once more from the position
        assert not store.index.failed
        assert not store.index_catch_up.step(40)
    assert store.index.failed
    assert store.flags.has(RunningFlag.INDEX_ERROR)
    assert len(put_all(store, [message(b"taken all the same")])) == 1
    store.close()
    again = open_store(storage)
    finish(again)
    assert all_found(again, 30)


def test_a_file_that_is_cleaned_away_while_it_is_read_is_passed_over():
    """The file that is being read is removed by a thread, between two steps."""
    storage, _ = without_index(90)
    store = open_store(storage)
    store.flushing.flush_all()
    assert store.index_catch_up.step(4)
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    finish(store)
    assert not store.index.failed
    assert [len(found(store, f"k{n}")) for n in (40, 89)] == [0, 1]


def unreadable(self: MemoryFile, size: int, offset: int) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


LETTERS = "abcdefghijklmnopqrstuvwxyz"


def many_keys(number: int, count: int = 16_000):
    return keyed(number, *(LETTERS[n % 26] for n in range(count)))


LARGE = {"mapped_file_size_commit_log": 1 << 20, "max_index_num": 5000}
ONE_WITH_MANY = [keyed(0, "first"), many_keys(1), keyed(2, "then"), many_keys(3, 500), keyed(4, "last")]
MANY_WITH_SOME = [keyed(0, "first"), *(many_keys(number, 490) for number in range(1, 40)), keyed(40, "last")]


def index_of(messages: list[IncomingMessage], *, by_log: bool = False, killed_after: int = 0) -> list[bytes]:
    """The files of an index that followed them, or was built from the log; the broker may be killed after a step."""
    storage = MemoryStorage()
    with wall_clock(lambda: 1_700_000_000_000):
        store = open_store(storage, **LARGE)
        store.index.is_behind = by_log
        for each in messages:
            store.put(each)
        store.commit_pending()
        step = 0
        while store.can_reput or (by_log and store.index_catch_up.step(100)):
            store.reput()
            step += 1
            if step == killed_after:
                store.index.seal(everything=True)
                store.flushing.flush_all()
                store.abandon()
                store, by_log = open_store(storage, **LARGE), True
                assert store.index.is_behind
        assert step > killed_after
        assert not store.index.is_behind
        assert found(store, "first")
        assert found(store, "last")
        store.close()
    return images(storage)


@pytest.fixture
def appended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were brought to the files at a time."""
    counts: list[int] = []
    append = GrowingIndexFile.append

    def counting(self: GrowingIndexFile, keys: KeyColumns) -> int:
        counts.append(len(keys))
        return append(self, keys)

    monkeypatch.setattr(GrowingIndexFile, "append", counting)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 9))
def test_it_goes_on_amid_the_keys_of_a_message_after_a_kill(step: int):
    assert index_of(ONE_WITH_MANY, killed_after=step) == index_of(ONE_WITH_MANY)


@pytest.mark.parametrize("by_log", [False, True], ids=["as they come", "from the log"])
@pytest.mark.parametrize("messages", [ONE_WITH_MANY, MANY_WITH_SOME], ids=["one with many", "many with some"])
def test_very_many_keys_are_indexed_in_steps(
    messages: list[IncomingMessage], by_log: bool, appended: list[int], monkeypatch: pytest.MonkeyPatch
):
    """In the end the files are what one go would have made of them."""
    made = index_of(messages, by_log=by_log)
    assert max(appended) <= 6500
    for module in (key_index, index_catch_up):
        monkeypatch.setattr(module, "MUCH", 1 << 30)
    assert made == index_of(messages)
    assert max(appended) >= 15_000


def test_the_keys_of_batches_do_not_gather_where_other_messages_come_with_them(appended: list[int]):
    """All the messages of a batch count, not the first one alone."""
    store = open_store(**LARGE)
    items = [BatchItem(0, b"none", b""), BatchItem(0, b"many", many_keys(1, 1500).properties.encode())]
    for number in range(20):
        assert store.put_batch(message(b"", batch=items)).status is PutMessageStatus.PUT_OK
        store.put(keyed(number, "single"))
        store.commit_pending()
        store.reput()
        assert not store.can_reput
    assert len(found(store, "single")) == 20
    assert max(appended) <= 6500
