"""Records that go to buffers first: seen and flushed only once the files have them, lost only by a kill."""

from __future__ import annotations

import threading

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.config import BrokerRole, FlushDiskType
from rocketpy_broker_sim.store import reput
from rocketpy_broker_sim.store.disk.failure import FileCreationError
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.log.transient_pool import TransientPool
from tests.broker_sim.store.helpers import bodies, message, open_store


def pooled(storage=None, **settings):
    return open_store(storage, **{"transient_store_pool_enable": True, **settings})


def put(store, *texts: bytes) -> None:
    for text in texts:
        store.put(message(text))
    store.commit_pending()
    store.reput()


def test_messages_are_seen_when_the_files_have_them():
    storage = MemoryStorage()
    seen = []
    store = pooled(storage, on_arrival=seen.append)
    put(store, b"first", b"second")
    assert (store.written_position, store.reads.max_offset("Orders", 0), seen) == (0, 0, [])
    assert store.buffered_position > 0
    assert store.reads.read(0) is None
    store.flushing.commit_log.flush()
    assert store.flushed_position == 0
    store.move_buffers()
    assert store.written_position == store.buffered_position
    store.reput()
    assert bodies(store) == [b"first", b"second"]
    assert [each.max_offset for each in seen] == [2]
    store.flushing.commit_log.flush()
    assert store.flushed_position == store.written_position


def test_what_is_more_than_may_wait_in_memory_is_read_from_the_files_once_they_have_it(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 3)
    store = pooled()
    for n in range(5):
        put(store, b"%d" % n)
    assert (store.can_reput, store.reads.max_offset("Orders", 0)) == (False, 0)
    store.move_buffers()
    put(store, b"5")
    store.move_buffers()
    store.reput()
    assert (store.reads.min_offset("Orders", 0), store.reads.max_offset("Orders", 0)) == (0, 6)
    assert bodies(store) == [b"%d" % n for n in range(6)]


def test_few_pages_are_not_moved():
    store = pooled(mapped_file_size_commit_log=65536)
    put(store, bytes(3000))
    store.move_buffers(1)
    assert store.written_position == 0
    put(store, bytes(3000))
    store.move_buffers(1)
    assert store.written_position == store.buffered_position


def test_buffers_are_taken_file_by_file_and_used_again():
    store = pooled(transient_store_pool_size=3)
    assert store.pool.available == 3
    put(store, bytes(3000))
    assert store.pool.available == 2
    put(store, bytes(3000), bytes(3000))
    assert store.pool.available == 0
    store.move_buffers()
    assert store.pool.available == 2  # the last file is not full yet
    for n in range(10):
        put(store, b"%d" % n * 3000)
        store.move_buffers()
        store.reput()
        assert store.pool.available == 2
    assert [body[:1] for body in bodies(store)] == [b"\0"] * 3 + [b"%d" % n for n in range(10)]


@pytest.mark.parametrize("fast", [False, True])
def test_without_a_buffer_a_new_file_is_refused_or_waits_for_one(fast):
    store = pooled(transient_store_pool_size=2, fast_fail_if_no_buffer_in_store_pool=fast)
    put(store, b"a" * 3000, b"b" * 3000)
    store.put(message(b"c" * 3000))
    if fast:
        with pytest.raises(FileCreationError, match="all buffers are in use: raise transientStorePoolSize"):
            store.commit_pending()
        store.move_buffers()
        put(store, b"d" * 3000)
    else:
        store.commit_pending()
    store.move_buffers()
    store.reput()
    assert [body[:1] for body in bodies(store)] == [b"a", b"b", b"d" if fast else b"c"]


def test_a_clean_stop_moves_everything():
    storage = MemoryStorage()
    store = pooled(storage)
    put(store, *(b"%d" % n * 500 for n in range(10)))
    store.close()
    assert not storage.exists("abort")
    assert bodies(open_store(storage)) == [b"%d" % n * 500 for n in range(10)]


def test_a_kill_loses_what_was_in_buffers_alone_and_nothing_else():
    storage = MemoryStorage()
    store = pooled(storage)
    put(store, b"moved")
    store.move_buffers()
    put(store, b"lost")
    left = storage.clone()
    store.abandon()
    again = pooled(left)
    assert bodies(again) == [b"moved"]
    put(again, b"next")
    again.move_buffers()
    again.reput()
    assert bodies(again) == [b"moved", b"next"]


def test_a_disk_that_refuses_a_move_is_asked_again():
    storage = MemoryStorage()
    store = pooled(storage)
    put(store, b"first")
    with storage.failing("pwrite", under="commitlog"):
        for _ in range(2):
            with pytest.raises(StoreError, match=r"moving messages from a buffer .* disk is full"):
                store.move_buffers()
            put(store, b"more")
    store.move_buffers()
    store.reput()
    assert bodies(store) == [b"first", b"more", b"more"]


def test_a_stop_that_cannot_move_everything_keeps_the_abort_file():
    storage = MemoryStorage()
    store = pooled(storage)
    put(store, b"first")
    with storage.failing("pwrite", under="commitlog"):
        store.close()
    assert storage.exists("abort")


@pytest.mark.parametrize("settings", [{"flush_disk_type": FlushDiskType.SYNC_FLUSH}, {"broker_role": BrokerRole.SLAVE}])
def test_only_a_master_with_asynchronous_flushing_has_a_pool(settings, caplog):
    assert open_store().pool is None
    assert not caplog.records
    assert pooled(**settings).pool is None
    (warning,) = caplog.records
    assert "transientStorePoolEnable has no effect" in warning.message


def test_a_deleted_topic_takes_what_is_in_buffers_with_it():
    storage = MemoryStorage()
    store = pooled(storage)
    store.put(message(b"gone", topic="Gone"))
    put(store, b"kept")
    store.delete_topics(["Gone"])
    put(store, b"next")
    store.move_buffers()
    store.reput()
    killed = storage.clone()
    for each in (store, pooled(killed)):
        assert each.reads.topics() == {"Orders"}
        assert bodies(each) == [b"kept", b"next"]


@pytest.mark.slow
def test_a_thread_moves_while_the_loop_puts(tmp_path):
    store = pooled(RealStorage(tmp_path), mapped_file_size_commit_log=65536)
    stop, errors = threading.Event(), []

    def move():
        while not stop.is_set():
            try:
                store.move_buffers()
            except (StoreError, KeyError, ValueError) as error:
                errors.append(error)
                return

    thread = threading.Thread(target=move)
    thread.start()
    try:
        for n in range(3000):
            put(store, b"%05d" % n * 20)
    finally:
        stop.set()
        thread.join(60)
    assert errors == []
    store.close()
    again = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=65536)
    assert bodies(again) == [b"%05d" % n * 20 for n in range(3000)]
    again.close()


def test_a_pool_gives_its_memory_back():
    pool = TransientPool(2, 4096)
    buffers = [pool.take(n * 4096) for n in range(2)]
    assert pool.take(8192) is None
    buffers[1].write(b"x" * 10, 4096 + 5)
    with buffers[1].part(4096, 4096 + 20) as part:
        assert bytes(part) == bytes(5) + b"x" * 10 + bytes(5)
    for buffer in buffers:
        pool.give_back(buffer)
    assert pool.available == 2
    assert pool.take(8192) is buffers[0]
    assert pool.available == 1
    pool.give_back(buffers[0])
    pool.close()
