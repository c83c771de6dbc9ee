"""No fault of a disk reaches a page that is mapped: what would be SIGBUS, and the end of the process, is an error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy_broker_sim.store.disk import platforms
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all
from tests.hostile.small_disk import ROOT, run_on_small_disk

OPENED = """
from rocketpy.errors import StoreError
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.helpers import message

config = MessageStoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=300_000, max_hash_slot_num=500_000,
    max_index_num=100_000,
)

def opened():
    store = MessageStore(RealStorage({folder!r}), config)
    store.load()
    return store

def fill(store, size):
    "Put messages until the disk refuses; how many there are then, and what it said."
    for number in range(100_000):
        store.put(message(bytes(size), queue_id=number % 3, properties=f"KEYS\\x01key{{number}}\\x02"))
        try:
            store.commit_pending()
            store.reput()
        except StoreError as error:
            return number, str(error)
"""


def run(tmp_path, program: str, megabytes: int = 3) -> list[str]:
    return run_on_small_disk(tmp_path, megabytes, OPENED.format(folder=str(tmp_path)) + program).splitlines()


@pytest.mark.slow
@pytest.mark.small_disk
def test_an_index_that_grows_on_a_full_tmpfs_does_not_end_the_process(tmp_path):
    lines = run(
        tmp_path,
        """
ballast = open(config.store_path_root_dir and __import__("os").path.join(FOLDER, "ballast"), "wb")
ballast.write(bytes(1 << 20)); ballast.close()
store = opened()
count, error = fill(store, 200)
print("disk is full" in error)
found = [len(store.keys.query("Orders", f"key{number}", 32, 0, 2**62).records) for number in (0, count // 2)]
print(found)
try:
    print(len(store.keys.query("Orders", "never put", 32, 0, 2**62).records))
except StoreError as error:
    print(error)
print("alive", count > 100)
""".replace("FOLDER", repr(str(tmp_path))),
    )
    assert lines == ["True", "[1, 1]", "0", "alive True"]


@pytest.mark.small_disk
def test_parts_that_were_never_written_are_read_on_a_full_tmpfs(tmp_path):
    """Queue units, offsets by time and records are looked up on a disk that has no page left."""
    lines = run(
        tmp_path,
        """
import os
store = opened()
store.put(message(b"x", queue_id=0)); store.commit_pending(); store.reput()
with open(FOLDER + "/ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError as error:
        print(os.strerror(error.errno))
print(store.reads.offset_by_time("Orders", 0, 0), store.reads.get("Orders", 0, 0, 32).count)
for position in range(0, 1 << 20, 4096):  # through all of the file, most of which was never written
    store.reads.read(position)
    store._log.row.files[0].read(position, 64)
print(store.reads.store_time("Orders", 0, 0) > 0, store.keys.query("Orders", "none", 32, 0, 2**62).records)
""".replace("FOLDER", repr(str(tmp_path))),
        2,
    )
    assert lines == ["No space left on device", "0 1", "True []"]


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/Orders/0", "index"])
def test_a_file_that_is_cut_under_its_reader_is_told(tmp_path, folder):
    """In a process of its own: before, the first read behind the cut was its end."""
    program = f"""
import os
from rocketpy.errors import StoreError
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import message, open_store, put_all
store = open_store(RealStorage({str(tmp_path)!r}), mapped_file_size_commit_log=1 << 20, max_hash_slot_num=50_000)
put_all(store, [message(b"x" * 900, properties=f"KEYS\\x01k{{n}}\\x02") for n in range(100)])
print(store.reads.get("Orders", 0, 90, 32).count, len(store.keys.query("Orders", "k90", 1, 0, 2**62).records))
folder = os.path.join({str(tmp_path)!r}, {folder!r})
for name in os.listdir(folder):
    os.truncate(os.path.join(folder, name), 0)
for look in (
    lambda: store.reads.get("Orders", 0, 90, 32),
    lambda: store.keys.query("Orders", "k90", 1, 0, 2**62),
    lambda: store.reads.offset_by_time("Orders", 0, 1),
    lambda: put_all(store, [message(b"y", queue_id=1, properties="KEYS\\x01other\\x02")]),
):
    try:
        look()
        print("fine")
    except StoreError as error:
        print("ends at 0 of" in str(error) or error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"it ended with {done.returncode}: {done.stderr}"
    lines = done.stdout.splitlines()
    assert lines[0] == "10 1"
    assert set(lines[1:]) == {"fine", "True"}


def test_a_cut_file_names_itself_and_the_remedy(tmp_path):
    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(b"kept" * 20) for _ in range(3)])
    path = tmp_path / "commitlog" / f"{0:020d}"
    os.truncate(path, 300)
    with pytest.raises(StoreCorruptError, match=rf"{path} ends at 300 of 4096 bytes: put the file back"):
        store.reads.get("Orders", 0, 2, 32)
    assert b"kept" * 20 in (store.reads.read(0) or b"")
    store.abandon()


@pytest.mark.parametrize("code", ["EIO", "ENOMEM"])
def test_a_read_that_the_disk_refuses_is_told_and_the_next_one_works(tmp_path, monkeypatch, code):
    import errno

    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(b"m%d" % n, queue_id=n % 2) for n in range(6)])
    number = getattr(errno, code)

    def refuse(descriptor: int, size: int, offset: int) -> bytes:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(platforms, "pread", refuse)
        with pytest.raises(StoreError, match="reading messages"):
            store.reads.get("Orders", 0, 0, 32)
    assert bodies(store) == [b"m0", b"m2", b"m4"]
    store.close()


def test_records_between_others_that_the_disk_cannot_give_are_still_read(tmp_path, monkeypatch):
    """Near records are read together with what lies between; where that cannot be had, each is read alone."""
    import errno

    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(b"m%d" % n, queue_id=n % 2) for n in range(8)])
    bad = store.reads.get("Orders", 1, 1, 1)
    assert bad.count == 1
    size = len(bad.records)
    pread = platforms.pread

    def rotten(descriptor: int, count: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"/commitlog/{0:020d}") and (
            offset < 3 * size + 10 < offset + count
        ):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(descriptor, count, offset)

    monkeypatch.setattr(platforms, "pread", rotten)
    assert bodies(store) == [b"m0", b"m2", b"m4", b"m6"]
    with pytest.raises(StoreError, match="reports an error"):
        store.reads.get("Orders", 1, 1, 1)
    store.abandon()
