"""Thousands of queues: few files open, and a start after a clean stop that reads none of them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy_broker_sim.store import message_store
from rocketpy_broker_sim.store.checkpoint import read_checkpoint, write_checkpoint
from rocketpy_broker_sim.store.disk import platforms
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.queue import table as queue_table
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

QUEUES = [(f"Topic-{number}", queue_id) for number in range(5) for queue_id in range(3)]


class Watched(RealStorage):
    """Notes which files are opened."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False):
        self.opened.append(path)
        return super().open(path, create=create)

    def of_queues(self) -> list[str]:
        return [path for path in self.opened if path.startswith("consumequeue")]


class Refusing(RealStorage):
    """A disk on which no file of a queue can be removed, for as long as it says so."""

    refuses = False

    def unlink(self, path: str) -> None:
        if self.refuses and path.startswith("consumequeue"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        super().unlink(path)


def state(store) -> dict[tuple[str, int], tuple]:
    return {
        key: (
            store.reads.min_offset(*key),
            store.reads.max_offset(*key),
            store.reads.earliest_store_time(*key),
            bodies(store, *key),
        )
        for key in [
            (topic, queue_id) for topic in sorted(store.reads.topics()) for queue_id in store.reads.queue_ids(topic)
        ]
    }


@pytest.fixture
def stopped(tmp_path) -> tuple[Path, dict]:
    """A store after a clean stop, and what it held."""
    store = open_store(RealStorage(tmp_path))
    for turn in range(13):  # ten units fill a file
        put_all(store, [message(b"%d" % turn, topic=topic, queue_id=queue_id) for topic, queue_id in QUEUES])
    held = state(store)
    assert len(held) == 15
    store.close()
    assert (tmp_path / "queues.json").exists()
    return tmp_path, held


def test_after_a_clean_stop_no_queue_file_is_opened(stopped):
    root, held = stopped
    storage = Watched(root)
    store = open_store(storage)
    assert storage.of_queues() == []
    assert len(storage.opened) < 10
    assert state(store) == held
    assert len(set(storage.of_queues())) == 2 * len(QUEUES)
    for turn in range(13, 25):
        put_all(store, [message(b"%d" % turn, topic=topic, queue_id=queue_id) for topic, queue_id in QUEUES])
    held = state(store)
    assert all(maximum == 25 for _, maximum, _, _ in held.values())
    store.close()
    assert state(open_store(RealStorage(root))) == held


def opened_again(root: Path, **settings) -> tuple[bool, dict]:
    """Whether the noted state was taken, and what the store holds."""
    storage = Watched(root)
    store = open_store(storage, **settings)
    read = storage.of_queues() != []
    held = state(store)
    store.close()
    return not read, held


def test_a_deleted_queue_is_seen_and_built_anew(stopped):
    root, held = stopped
    shutil.rmtree(root / "consumequeue" / "Topic-2" / "1")
    assert opened_again(root) == (False, held)
    assert opened_again(root) == (True, held)
    shutil.rmtree(root / "consumequeue" / "Topic-2")
    assert opened_again(root) == (False, held)
    shutil.rmtree(root / "consumequeue")
    assert opened_again(root) == (False, held)


def test_a_deleted_file_of_a_queue_is_seen(stopped):
    root, held = stopped
    (root / "consumequeue" / "Topic-3" / "0" / f"{200:020d}").unlink()
    assert opened_again(root) == (False, held)
    assert opened_again(root) == (True, held)


def test_a_copy_of_a_store_reads_its_files_and_loses_nothing(stopped, tmp_path_factory):
    root, held = stopped
    copy = tmp_path_factory.mktemp("copy") / "store"
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(copy / "consumequeue"):
        os.utime(folder, (1, 1))
    assert opened_again(copy) == (False, held)
    assert opened_again(copy) == (True, held)


def test_a_crash_or_another_broker_makes_it_worthless(stopped):
    root, _ = stopped
    store = open_store(RealStorage(root))
    put_all(store, [message(b"13", topic="Topic-0")])
    store.abandon()
    taken, found = opened_again(root)
    assert not taken
    assert found["Topic-0", 0][1] == 14
    assert opened_again(root)[0]
    storage = RealStorage(root)
    checkpoint = read_checkpoint(storage)
    write_checkpoint(storage, checkpoint)
    data = bytearray(storage.read_bytes("checkpoint"))
    data[7] ^= 1  # Java's first time, as its broker moves it
    storage.open("checkpoint").pwrite(data, 0)
    assert not opened_again(root)[0]


@pytest.mark.parametrize("damage", [b"", b"00000000\n{}", b"no sum"])
def test_a_damaged_note_is_not_believed(stopped, damage):
    root, held = stopped
    whole = (root / "queues.json").read_bytes()
    (root / "queues.json").write_bytes(damage or whole[:-7] + b"9" + whole[-6:])
    assert opened_again(root) == (False, held)


@pytest.mark.parametrize("noted", [True, False])
def test_files_of_another_size_are_refused(stopped, noted):
    root, held = stopped
    if not noted:
        (root / "queues.json").unlink()
    with pytest.raises(StoreCorruptError, match="200 bytes where 100 are configured"):
        open_store(RealStorage(root), mapped_file_size_consume_queue=100)
    assert opened_again(root) == (noted, held)


def test_a_note_that_does_not_say_the_size_of_the_files_is_not_believed(stopped):
    root, held = stopped
    text = json.loads((root / "queues.json").read_bytes().partition(b"\n")[2])
    del text["fileSize"]
    data = json.dumps(text).encode()
    (root / "queues.json").write_bytes(b"%08x\n%b" % (zlib.crc32(data), data))
    assert opened_again(root) == (False, held)
    assert opened_again(root) == (True, held)


def test_a_log_that_begins_later_moves_the_first_offsets(stopped):
    root, held = stopped
    (root / "commitlog" / f"{0:020d}").unlink()
    _, found = opened_again(root)
    assert {key: value[1] for key, value in found.items()} == {key: value[1] for key, value in held.items()}
    assert {value[0] for value in found.values()} == {2, 3}
    assert all(found[key][3] == held[key][3][found[key][0] :] for key in held)


def test_a_topic_that_is_deleted_stays_deleted(stopped):
    root, held = stopped
    store = open_store(RealStorage(root))
    store.delete_topics([f"Topic-{number}" for number in range(1, 5)])
    store.close()
    assert opened_again(root) == (True, {key: value for key, value in held.items() if key[0] == "Topic-0"})


EXT = {"enable_consume_queue_ext": True}


class Bits:
    """Gives every message of one topic a bit map."""

    def begin(self):
        return {"Topic-1"}

    def of(self, topic, properties):
        return [b"\x01"] * len(properties)


def test_queues_that_may_have_an_extension_are_read_once(stopped):
    root, held = stopped
    assert opened_again(root, **EXT) == (False, held)  # the note does not say where their units lead
    assert opened_again(root, **EXT) == (True, held)
    assert opened_again(root) == (True, held)
    assert opened_again(root, **EXT) == (False, held)


def test_queues_with_an_extension_are_read(stopped):
    root, _ = stopped
    store = open_store(RealStorage(root), **EXT)
    store.keep_bit_maps(Bits())
    put_all(store, [message(b"new", topic="Topic-1")])
    held = state(store)
    store.close()
    assert not (root / "queues.json").exists()
    for settings in (EXT, {}, EXT):  # without the setting a note is left, which is not believed with it
        assert opened_again(root, **settings) == (False, held)
    store = open_store(RealStorage(root), **EXT)
    queue = store._queues.find(("Topic-1", 0))
    before = queue.ext.end
    assert before > 0
    store.keep_bit_maps(Bits())
    put_all(store, [message(b"newer", topic="Topic-1")])
    assert queue.ext.end > before
    store.close()


def test_a_topic_is_deleted_a_queue_a_step_and_may_be_made_again_meanwhile():
    """A thousand files in one go would hold up everybody, and what is put meanwhile must not go with them."""
    storage = MemoryStorage()
    store = open_store(storage)
    for number in range(20):
        put_all(store, [message(topic="Goes", queue_id=number), message(topic="Stays", queue_id=number)])
    steps = store.delete_topics_steps(["Goes"])
    next(steps)
    assert store.reads.topics() == {"Stays"}
    assert len(storage.list("consumequeue/Goes")) == 19
    put_all(store, [message(b"new", topic="Goes", queue_id=number) for number in (0, 19)])
    count = 1 + sum(1 for _ in steps)
    assert count == 19, "one queue was deleted at once, as it was made again"
    for number in (0, 19):
        assert (store.reads.min_offset("Goes", number), store.reads.max_offset("Goes", number)) == (0, 1)
    assert storage.list("consumequeue/Goes") == ["0", "19"]
    store.close()
    store = open_store(storage)
    assert bodies(store, "Goes", 19) == [b"new"]
    store.close()


def test_a_deletion_that_was_cut_short_ends_with_the_next_one_or_the_next_start():
    storage = MemoryStorage()
    store = open_store(storage)
    for topic in ("A", "B"):
        for number in range(5):
            put_all(store, [message(topic=topic, queue_id=number)])
        steps = store.delete_topics_steps([topic])
        next(steps)
        steps.close()
    store.delete_topics(["A"])
    assert storage.list("consumequeue") == ["B"]
    store.close()
    store = open_store(storage)
    assert not store.reads.topics()
    assert storage.list("consumequeue") == []
    store.close()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_deletion_that_was_cut_short_by_a_clean_stop_leaves_no_units_to_a_topic_made_again(stopped, refuses):
    root, held = stopped
    storage = Refusing(root)
    store = open_store(storage)
    steps = store.delete_topics_steps(["Topic-1"])
    next(steps)
    steps.close()
    storage.refuses = refuses
    assert store.close() is None
    assert (root / "consumequeue" / "Topic-1").exists() == refuses
    store = open_store(RealStorage(root))
    assert sorted(path.name for path in (root / "consumequeue").iterdir()) == sorted(
        {key[0] for key in held} - {"Topic-1"}
    )
    put_all(store, [message(b"new", topic="Topic-1", queue_id=2)])
    held = {key: value for key, value in held.items() if key[0] != "Topic-1"} | {
        key: value for key, value in state(store).items() if key[0] == "Topic-1"
    }
    assert held["Topic-1", 2][1] == 1
    store.close()
    assert opened_again(root) == (True, held)


def test_a_stop_deletes_a_limited_number_of_queues_and_the_next_start_the_rest(stopped, monkeypatch):
    """A topic may have tens of thousands of queues, and a stop must not wait for all of their files."""
    root, held = stopped
    kept = {key: value for key, value in held.items() if key[0] not in ("Topic-1", "Topic-2")}
    store = open_store(RealStorage(root))
    steps = store.delete_topics_steps(["Topic-1", "Topic-2"])
    next(steps)
    steps.close()
    monkeypatch.setattr(message_store, "DELETED_AT_STOP", 2)
    assert store.close() is None
    assert not (root / "consumequeue" / "Topic-1").exists()
    assert len(list((root / "consumequeue" / "Topic-2").iterdir())) == 3
    store = open_store(RealStorage(root))
    assert not (root / "consumequeue" / "Topic-2").exists()
    assert state(store) == kept
    store.close()
    assert opened_again(root) == (True, kept)


def test_a_broker_starts_while_the_disk_still_refuses_to_end_a_deletion(stopped, caplog):
    root, held = stopped
    kept = {key: value for key, value in held.items() if key[0] != "Topic-1"}
    storage = Refusing(root)
    store = open_store(storage)
    steps = store.delete_topics_steps(["Topic-1"])
    next(steps)
    steps.close()
    storage.refuses = True
    assert store.close() is None
    store = open_store(storage)
    assert caplog.text.count("the deleted topic Topic-1") == 1
    assert state(store) == kept
    with pytest.raises(StoreError, match="making a queue"):
        put_all(store, [message(b"new", topic="Topic-1", queue_id=2)])
    assert store.close() is None
    storage.refuses = False
    store = open_store(storage)
    assert not (root / "consumequeue" / "Topic-1").exists()
    store.close()
    assert opened_again(root) == (True, kept)


# --- flushing many at once


def flush_many(storage, monkeypatch) -> list[str]:
    """Let fifteen queues be many, and flush them; returns the files that were opened for it."""
    monkeypatch.setattr(queue_table, "MANY", 10)
    store = open_store(storage)
    for topic, queue_id in QUEUES:
        put_all(store, [message(topic=topic, queue_id=queue_id)])
    storage.opened.clear()
    store.flushing.flush_all()
    opened = storage.of_queues()
    storage.opened.clear()
    store.flushing.flush_all()
    assert storage.of_queues() == []  # and now there is nothing more to flush
    for topic, queue_id in QUEUES[:3]:
        put_all(store, [message(topic=topic, queue_id=queue_id)])
    store.flushing.flush_all()
    assert sorted(set(storage.of_queues())) == [f"consumequeue/Topic-0/{number}/{0:020d}" for number in range(3)]
    store.close()
    return opened


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a whole file system has reached the disk")
def test_many_queues_are_flushed_with_one_call(tmp_path, monkeypatch):
    asked = []
    sync = platforms.sync_tree
    monkeypatch.setattr(platforms, "sync_tree", lambda path: asked.append(path) or sync(path))
    assert flush_many(Watched(tmp_path), monkeypatch) == []
    assert asked == [str(tmp_path / "consumequeue")]


def test_many_queues_are_flushed_one_by_one_where_no_call_is_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr(platforms, "sync_tree", lambda path: False)
    assert len(flush_many(Watched(tmp_path), monkeypatch)) == 15


def test_a_call_for_all_that_fails_closes_the_store(tmp_path, monkeypatch):
    def fail(path: str) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(platforms, "sync_tree", fail)
    monkeypatch.setattr(queue_table, "MANY", 10)
    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(topic=topic, queue_id=queue_id) for topic, queue_id in QUEUES])
    with pytest.raises(StoreError, match="the disk reports an error"):
        store.flushing.flush_all()
    assert not store.is_writable
    store.abandon()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors and mappings as Linux tells them")
def test_ten_thousand_topics_would_stay_below_the_limits_of_the_system(tmp_path):
    """Far more queues than the process may have open, each with two files: what is open does not grow with them."""
    program = f"""
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
def open_store():
    store = MessageStore(RealStorage({str(tmp_path)!r}), MessageStoreConfig(mapped_file_size_consume_queue=40))
    store.load()
    return store
def count():
    return len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines())
store = open_store()
seen = []
for turn in range(3):
    for topic in range(60):
        for queue in range(4):
            store.put(IncomingMessage(f"T{{topic}}", queue, b"x"))
        store.commit_pending()
        store.reput()
    seen.append(count())
for topic in range(60):
    for queue in range(4):
        assert store.reads.get(f"T{{topic}}", queue, 0, 32).next_begin_offset == 2
        assert store.reads.get(f"T{{topic}}", queue, 2, 32).next_begin_offset == 3
seen.append(count())
print(seen)
assert all(files < 130 for files, _ in seen), seen
assert max(maps for _, maps in seen) - min(maps for _, maps in seen) < 60, seen
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr


def test_closed_queues_leave_no_file_open(stopped):
    root, _ = stopped
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(2):
        opened_again(root)
    assert sorted(os.listdir("/dev/fd")) == before
