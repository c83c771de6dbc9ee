"""A disk that is full, refuses, or fails: what is not there is not acknowledged, what is there stays readable."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading

import pytest

from rocketpy.errors import StoreError
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.put_result import PutMessageStatus
from rocketpy_broker_sim.store.repair.apply import Repair
from tests.broker_sim.store.helpers import OK, bodies, message, open_store, put_all

REFUSED = PutMessageStatus.SERVICE_NOT_AVAILABLE


def test_threat_L9_a_full_disk_refuses_the_chunk_and_nothing_else():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"before%d" % n) for n in range(3)])
    for n in range(5):
        store.put(message(b"lost%d" % n, queue_id=n % 2))
    with storage.failing("pwrite", under="commitlog"), pytest.raises(StoreError, match="disk is full: free space"):
        store.commit_pending()
    store.reput()
    assert bodies(store) == [b"before0", b"before1", b"before2"]
    assert store.reads.max_offset("Orders", 1) == 0
    result = put_all(store, [message(b"after")])[0]
    assert result.queue_offset == 3
    again = open_store(storage.clone())
    assert bodies(again) == [b"before0", b"before1", b"before2", b"after"]
    assert bodies(again, queue_id=1) == []


@pytest.mark.parametrize("kept", [0, 50, 101, 150, 202, 300])
def test_threat_L9_a_half_written_chunk_does_not_come_back_to_life(kept):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"m000")])
    for n in range(1, 4):
        store.put(message(b"m%03d" % n))
    cuts = iter([kept])  # the first write is cut, what makes it undone is not
    storage.fault = lambda operation, path, size: next(cuts, None) if operation == "pwrite" else None
    with pytest.raises(StoreError):
        store.commit_pending()
    storage.fault = None
    assert bodies(open_store(storage.clone())) == [b"m000"]
    # A record of the same size as the first of the chunk must not let those behind it be valid again.
    put_all(store, [message(b"next")])
    assert bodies(open_store(storage.clone())) == [b"m000", b"next"]


def test_threat_L9_a_failure_that_cannot_be_undone_is_undone_before_the_next_write():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    store.put(message(b"lost"))
    storage.fault = fail_writes_after_cut
    with pytest.raises(StoreError):
        store.commit_pending()
    store.put(message(b"gone"))
    with pytest.raises(StoreError, match="writing to the commit log"):
        store.commit_pending()
    store.reput()
    assert bodies(store) == [b"kept"]
    storage.fault = None
    flushed = []
    storage.fault = lambda operation, path, size: flushed.append(path) if operation == "fdatasync" else None
    put_all(store, [message(b"next")])
    assert flushed == ["commitlog/00000000000000000000"]
    assert bodies(store) == bodies(open_store(storage.clone())) == [b"kept", b"next"]
    store.close()
    assert not storage.exists("abort")


def test_a_store_that_is_closed_with_a_failure_that_was_not_undone_is_recovered():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    store.put(message(b"lost"))
    storage.fault = fail_writes_after_cut
    with pytest.raises(StoreError):
        store.commit_pending()
    assert "taking back a failed write" in str(store.close())
    storage.fault = None
    assert storage.exists("abort")
    assert bodies(open_store(storage)) == [b"kept"]


def unlink_all(storage: MemoryStorage, folder: str) -> None:
    for name in storage.list(folder):
        path = f"{folder}/{name}"
        unlink_all(storage, path) if storage.is_dir(path) else storage.unlink(path)


@pytest.mark.parametrize(
    ("operation", "under", "said"),
    [
        ("pwrite", "consumequeue", "disk is full: free space"),
        ("fdatasync", "index", "the index in memory:/index cannot be written"),
        ("unlink", "abort", "removing the mark of a running broker"),
    ],
)
def test_a_repair_tells_what_the_disk_refuses(operation: str, under: str, said: str):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept", properties=b"KEYS\x01key\x02")])
    assert store.close() is None
    for each in ("consumequeue", "index"):
        unlink_all(storage, each)
    repair = Repair(storage, store.config)
    with storage.failing(operation, under=under), pytest.raises(StoreError, match=said):
        repair.rebuild({"Orders"})
    repair.rebuild({"Orders"})
    assert not storage.exists("abort")
    assert bodies(open_store(storage)) == [b"kept"]


_cuts: list[str] = []


@pytest.fixture(autouse=True)
def _whole_again():
    _cuts.clear()


def fail_writes_after_cut(operation: str, path: str, size: int) -> int | None:
    """Half of a write is done, and then the disk is gone."""
    if operation != "pwrite":
        return None
    if size > 20 and path.startswith("commitlog") and not _cuts:
        _cuts.append(path)
        return 20
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_threat_L9_after_a_failed_flush_nothing_is_taken_until_the_store_is_opened_again():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    with storage.failing("fdatasync", code=errno.EIO), pytest.raises(StoreError, match="until the broker is restarted"):
        store.flushing.commit_log.flush()
    assert not store.is_writable
    assert store.put(message()).status is store.put_batch(message()).status is REFUSED
    with pytest.raises(StoreError, match="flushing the commit log"):
        store.flushing.flush_all()  # the disk works again, but what it has is unknown
    assert bodies(store) == [b"kept"]
    store.close()
    assert storage.exists("abort")
    again = open_store(storage)
    assert bodies(again) == [b"kept"]
    assert put_all(again, [message()])[0].queue_offset == 1


def test_threat_L9_a_flush_that_failed_is_not_made_good_by_the_next_one():
    """A send may have been written before the failure was known: its flush must not succeed, whatever the disk says."""
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    with storage.failing("fdatasync", code=errno.EIO), pytest.raises(StoreError):
        store.flushing.commit_log.flush()
    flushes: list[str] = []
    storage.fault = lambda operation, path, size: flushes.append(path) if operation == "fdatasync" else None
    for _ in range(2):
        with pytest.raises(StoreError, match="until the broker is restarted"):
            store.flushing.commit_log.flush()
    assert flushes == []
    assert store.flushed_position == 0 < store.written_position


@pytest.mark.parametrize("operation", ["fdatasync", "sync_dir"])
def test_threat_L9_a_failed_flush_of_the_queues_counts_too(operation):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message()])
    with storage.failing(operation, code=errno.EIO, under="consumequeue"), pytest.raises(StoreError):
        store.flushing.flush_all()
    assert store.put(message()).status is REFUSED


def test_threat_L9_full_queues_hide_messages_until_there_is_room():
    storage = MemoryStorage()
    seen = []
    store = open_store(storage, on_arrival=seen.append)
    results = [store.put(message(b"m%d" % n, queue_id=n % 2)) for n in range(4)]
    store.commit_pending()
    with storage.failing("pwrite", under="consumequeue/Orders/1"):
        for _ in range(2):
            with pytest.raises(StoreError, match="writing to the consume queues"):
                store.reput()
        assert store.dispatch_behind > 0
        results.append(store.put(message(b"m4")))
        store.commit_pending()
    assert seen == []
    while store.can_reput:
        store.reput()
    assert store.dispatch_behind == 0
    assert [tuple(each)[:3] for each in seen] == [("Orders", 0, 2), ("Orders", 1, 2), ("Orders", 0, 3)]
    assert bodies(store) == [b"m0", b"m2", b"m4"]
    assert bodies(store, queue_id=1) == [b"m1", b"m3"]
    assert put_all(store, [message()])[0].queue_offset == results[4].queue_offset + 1


@pytest.mark.parametrize("full", ["Orders/0/00000000000000000200", "Orders/1"])
def test_threat_L9_full_queues_get_a_batch_whole_and_once(full):
    storage = MemoryStorage()
    seen = []
    store = open_store(storage, on_arrival=seen.append)  # ten units fill a file
    items = [BatchItem(0, b"%d" % number, b"TAGS\x01A\x02") for number in range(7)]
    for queue_id in (0, 1, 0):
        assert store.put_batch(message(b"", queue_id=queue_id, batch=items)).status is OK
        assert store.put(message(b"last", queue_id=queue_id)).status is OK
    store.commit_pending()
    with storage.failing("pwrite", under=f"consumequeue/{full}"), pytest.raises(StoreError):
        store.reput()
    assert seen == []
    store.reput()
    once = [b"%d" % number for number in range(7)] + [b"last"]
    codes = [ord("A")] * 7 + [0]
    arrived = sorted(tuple(each)[:4] for each in seen)
    assert arrived == [("Orders", 0, 16, codes * 2), ("Orders", 1, 8, codes)]
    assert bodies(store) == once * 2
    assert bodies(store, queue_id=1) == once
    assert store.put_batch(message(b"", batch=items)).queue_offset == 16


def test_a_full_disk_at_the_start_is_told():
    storage = MemoryStorage()
    with storage.failing("write_bytes_atomic"), pytest.raises(StoreError, match=r"opening the store .* disk is full"):
        open_store(storage)
    open_store(storage).close()  # and the lock was given back


def test_a_full_disk_when_a_file_is_rolled():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"x" * 3000)])
    store.put(message(b"y" * 3000))
    with storage.failing("truncate", under="commitlog"), pytest.raises(StoreError):
        store.commit_pending()
    put_all(store, [message(b"z" * 3000)])
    assert [body[:1] for body in bodies(store)] == [b"x", b"z"]
    store.close()
    assert [body[:1] for body in bodies(open_store(storage))] == [b"x", b"z"]


def test_an_unwritable_directory_is_told(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("in the way")
    with pytest.raises(StoreError, match=r"opening the store at .*file/store failed: a file stands where a folder"):
        open_store(RealStorage(occupied / "store"))


@pytest.mark.parametrize(
    ("code", "advice"), [(errno.EACCES, "let the user that runs the broker own"), (errno.EROFS, "remount it")]
)
def test_a_directory_without_permission_is_told(code, advice):
    storage = MemoryStorage()
    with storage.failing("create", code=code), pytest.raises(StoreError, match=f"opening the store at .*{advice}"):
        open_store(storage)


def test_threat_L9_a_real_disk_that_is_full(tmp_path):
    """A limit on the size of files plays the full disk; in a process of its own, as limits belong to the process."""
    program = f"""
import resource, signal
from rocketpy.errors import StoreError
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = MessageStore(RealStorage({str(tmp_path)!r}), MessageStoreConfig(mapped_file_size_commit_log=65536,
                     mapped_file_size_consume_queue=2000))
store.load()
store.put(IncomingMessage("T", 0, b"kept"))
store.commit_pending()
store.reput()
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
store.put(IncomingMessage("T", 0, b"x" * 8000))
try:
    store.commit_pending()
except StoreError as error:
    print(error)
store.put(IncomingMessage("T", 0, b"small"))
store.commit_pending()
store.reput()
print(store.reads.max_offset("T", 0), store.reads.get("T", 0, 0, 32).records.count(b"small"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert "writing to the commit log" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 1"


# --- flushing


def test_written_and_flushed_positions():
    store = open_store()
    results = put_all(store, [message(b"x" * 900) for _ in range(10)])
    assert store.written_position == results[-1].end
    assert store.flushed_position == 0
    store.flushing.commit_log.flush()
    assert store.flushed_position == store.written_position
    store.put(message())
    assert store.written_position == results[-1].end


def test_with_sync_flush_only_flushed_messages_can_be_seen():
    seen = []
    store = open_store(on_arrival=seen.append, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    put_all(store, [message(b"a"), message(b"b")])
    assert (store.reads.max_offset("Orders", 0), seen) == (0, [])
    store.flushing.commit_log.flush()
    put_all(store, [message(b"c")])
    assert bodies(store) == [b"a", b"b"]
    store.flushing.commit_log.flush()
    store.reput()
    assert bodies(store) == [b"a", b"b", b"c"]
    assert [each.max_offset for each in seen] == [2, 3]


def test_every_new_file_and_its_folder_reach_the_disk():
    storage = MemoryStorage()
    synced = []
    store = open_store(storage)
    storage.fault = lambda operation, path, size: synced.append((operation, path)) if "sync" in operation else None
    put_all(store, [message(b"x" * 1500) for _ in range(5)])
    store.flushing.flush_all()
    files = [f"commitlog/{name}" for name in storage.list("commitlog")]
    assert len(files) == 3
    assert {("fdatasync", path) for path in files} < set(synced)
    folders = ("commitlog", "consumequeue", "consumequeue/Orders", "consumequeue/Orders/0")
    assert {("sync_dir", path) for path in folders} < set(synced)
    assert synced.index(("sync_dir", "commitlog")) < synced.index(("fdatasync", "checkpoint"))
    synced.clear()
    store.flushing.flush_all()
    assert synced == []


def test_a_thread_may_flush_while_the_loop_puts(tmp_path):
    store = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=65536)
    stop = threading.Event()
    errors = []

    def flush():
        while not stop.is_set():
            try:
                store.flushing.flush_all()
            except (StoreError, OSError, RuntimeError) as error:
                errors.append(error)
                return

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        for n in range(300):
            put_all(store, [message(b"%d-%d" % (n, k), queue_id=k, topic=f"T{n % 7}") for k in range(4)])
            assert store.flushed_position <= store.written_position
    finally:
        stop.set()
        thread.join(60)
    assert errors == []
    store.close()
    again = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=65536)
    assert sum(len(bodies(again, f"T{n}", k)) for n in range(7) for k in range(4)) == 1200
    again.close()


def test_closed_stores_leave_no_file_open(tmp_path):
    before = os.listdir("/dev/fd")
    for _ in range(3):
        store = open_store(RealStorage(tmp_path))
        put_all(store, [message(b"x" * 900, queue_id=n % 3) for n in range(30)])
        bodies(store)
        store.close()
    assert os.listdir("/dev/fd") == before


def test_a_store_that_cannot_be_opened_leaves_no_file_open(tmp_path):
    store = open_store(RealStorage(tmp_path))
    put_all(store, [message()])
    store.close()
    before = os.listdir("/dev/fd")
    with pytest.raises(StoreError):
        open_store(RealStorage(tmp_path), mapped_file_size_commit_log=8192)
    assert os.listdir("/dev/fd") == before


@pytest.mark.slow
def test_a_process_that_is_killed_loses_nothing_it_acknowledged(tmp_path):
    program = f"""
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
store = MessageStore(RealStorage({str(tmp_path)!r}), MessageStoreConfig(mapped_file_size_commit_log=4096,
                     mapped_file_size_consume_queue=200))
store.load()
n = 0
while True:
    for _ in range(7):
        store.put(IncomingMessage("Orders", n % 3, b"m%d" % n))
        n += 1
    store.commit_pending()
    print(n, flush=True)
    store.reput()
    if n % 5 == 0:
        store.flushing.flush_all()
"""
    for turn in range(2):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        acknowledged = 0
        while acknowledged < 200:
            acknowledged = int(process.stdout.readline())
        process.kill()
        acknowledged = int((process.communicate()[0].split() or [acknowledged])[-1])
        if turn == 0:
            continue  # killed twice, the second time while going on with what the first left
        store = open_store(RealStorage(tmp_path))
        found = [body for queue_id in range(3) for body in bodies(store, queue_id=queue_id)]
        assert all(found.count(b"m%d" % n) in (1, 2) for n in range(acknowledged))
        assert all(found.count(b"m%d" % n) == 2 for n in range(200))
        store.close()
