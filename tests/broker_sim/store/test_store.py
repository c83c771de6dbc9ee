"""The store as a whole: writing and reading back, restarting, one broker a directory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rocketpy.errors import StoreError
from rocketpy.wire.message_codec import decode_record
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import GetMessageStatus, PutMessageStatus
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all, read_queue, small_config


@pytest.fixture(params=["memory", "disk"])
def storage(request, tmp_path):
    return MemoryStorage() if request.param == "memory" else RealStorage(tmp_path / "store")


def test_ST1_write_and_read_back(storage):
    store = open_store(storage)
    results = put_all(store, [message(b"%d" % n, queue_id=n % 3, properties=f"KEYS\x01k{n}\x02") for n in range(90)])
    for queue_id in range(3):
        messages = read_queue(store, queue_id=queue_id)
        assert [each.body for each in messages] == [b"%d" % n for n in range(queue_id, 90, 3)]
        assert [each.keys for each in messages] == [(f"k{n}",) for n in range(queue_id, 90, 3)]
    for n, result in enumerate(results):
        found = decode_record(store.reads.read(result.physical_offset))
        assert (found.body, found.queue_offset, found.store_timestamp) == (b"%d" % n, n // 3, result.store_timestamp)
        assert found.offset_message_id == result.offset_message_id
    store.close()


def test_ST1_positions_outside_the_log(storage):
    store = open_store(storage)
    results = put_all(store, [message(b"x" * 100) for _ in range(100)])
    assert decode_record(store.reads.read(0)).queue_offset == 0
    assert decode_record(store.reads.read(results[-1].physical_offset)).queue_offset == 99
    assert store.reads.read(store.written_position) is None
    assert store.reads.read(store.written_position + 10**6) is None
    assert store.reads.read(results[-1].physical_offset, results[-1].size + 1) is None
    assert store.reads.read(-1) is None
    assert store.reads.read(results[1].physical_offset + 1) is None
    assert store.reads.read(results[1].physical_offset - 91) is None
    store.close()


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (0, GetMessageStatus.FOUND, 10),
        (10, GetMessageStatus.OFFSET_OVERFLOW_ONE, 10),
        (11, GetMessageStatus.OFFSET_OVERFLOW_BADLY, 10),
        (-1, GetMessageStatus.OFFSET_TOO_SMALL, 0),
    ],
)
def test_ST1_offsets_at_and_outside_the_ends(offset, status, next_offset):
    store = open_store()
    put_all(store, [message() for _ in range(10)])
    result = store.reads.get("Orders", 0, offset, 32)
    assert (result.status, result.next_begin_offset, result.min_offset, result.max_offset) == (
        status,
        next_offset,
        0,
        10,
    )


def test_ST1_an_unknown_queue_is_empty():
    result = open_store().reads.get("Orders", 0, 7, 32)
    assert (result.status, result.next_begin_offset) == (GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_ST2_a_clean_restart_keeps_everything(storage):
    store = open_store(storage)
    put_all(store, [message(b"%d" % n, queue_id=n % 2) for n in range(101)])
    end = store.written_position
    store.close()
    again = open_store(storage)
    assert again.written_position == end
    assert [again.reads.max_offset("Orders", queue_id) for queue_id in range(2)] == [51, 50]
    assert bodies(again) == [b"%d" % n for n in range(0, 101, 2)]
    result = put_all(again, [message(b"more", queue_id=1)])[0]
    assert (result.physical_offset, result.queue_offset) == (end, 50)
    again.close()


def test_ST2_the_mark_of_a_running_broker_goes_with_a_clean_stop(storage):
    store = open_store(storage)
    assert storage.read_bytes("abort").isdigit()
    store.close()
    assert not storage.exists("abort")


@pytest.mark.parametrize("same_process", [True, False])
def test_ST5_a_second_store_on_one_directory_is_refused(tmp_path, same_process, held_elsewhere):
    storage = RealStorage(tmp_path)
    if same_process:
        first = open_store(storage)
    else:
        held_elsewhere(tmp_path / "lock")
    with pytest.raises(StoreError, match=f"{tmp_path} is in use by another broker: .*storePathRootDir"):
        open_store(RealStorage(tmp_path))
    if same_process:
        put_all(first, [message()])
        first.close()
        open_store(RealStorage(tmp_path)).close()


test_threat_L11_two_brokers_on_one_directory = test_ST5_a_second_store_on_one_directory_is_refused


@pytest.fixture
def held_elsewhere():
    """Lets another process hold a lock file as Apache's broker does."""

    running = []
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w+')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )

    def hold(path):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        running.append(process)
        assert process.stdout.readline() == b"held\n"

    yield hold
    for process in running:
        process.communicate(timeout=30)


def test_a_closed_store_takes_nothing(storage):
    store = MessageStore(storage, small_config())
    assert store.put(message()).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    store.load()
    store.close()
    assert store.put(message()).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    store.close()


@pytest.mark.slow
def test_more_queues_than_a_process_may_have_files_open(tmp_path):
    """In a process of its own, as the limit belongs to the process."""
    program = f"""
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
for turn in range(2):
    store = MessageStore(RealStorage({str(tmp_path)!r}), MessageStoreConfig(mapped_file_size_commit_log=1 << 20,
                         mapped_file_size_consume_queue=2000))
    store.load()
    for step in range(5):
        for n in range(300):
            store.put(IncomingMessage("T%d" % (n % 30), n // 30, b"body"))
            if n % 7 == 0:
                store.commit_pending()
                store.reput()
        store.commit_pending()
        store.reput()
        store.flushing.flush_all()
    assert len(os.listdir("/dev/fd")) < 140
    print(sum(store.reads.get("T%d" % n, k, 0, 32).count for n in range(30) for k in range(10)))
    store.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("1500\n3000\n", "")


def test_a_place_where_no_store_can_be_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        MessageStore(RealStorage(tmp_path / "file"), small_config()).load()
    log = {"commitlog": str(tmp_path / "file")}
    with pytest.raises(StoreError, match=f"at {tmp_path / 's'} failed: {tmp_path / 'file'}: a file stands where"):
        MessageStore(RealStorage(tmp_path / "s", mounts=log), small_config()).load()
