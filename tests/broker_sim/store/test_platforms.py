"""Linux, macOS and Windows: what one of them lacks is neither needed to import nor to read, and stands in for."""

from __future__ import annotations

import errno
import mmap
import os
import platform
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from rocketpy_broker_sim.store.disk import platforms
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.golden import GoldenStore

ROOT = Path(__file__).resolve().parents[3]

AS_ON_WINDOWS = """
import asyncio, os, select, shutil, signal, socket, ssl, subprocess, sys, tempfile, trio
import attrs, lark, msgpack, tenacity
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("pread", "pwrite", "preadv", "pwritev", "fdatasync", "sysconf", "uname", "getuid", "geteuid",
             "fork", "register_at_fork", "O_DIRECTORY", "O_CLOEXEC", "SEEK_DATA", "SEEK_HOLE", "sendfile"):
    delattr(os, name)
del signal.SIGHUP
"""

READ = """
import importlib, pkgutil
import rocketpy, rocketpy_broker_sim.config, rocketpy_broker_sim.store
count = 0
for package in (rocketpy, rocketpy_broker_sim.config, rocketpy_broker_sim.store):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.startswith(("rocketpy.cli", "rocketpy.spark")):
            importlib.import_module(module.name)
            count += 1
assert count > 150, count
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
root, log_size, queue_size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config = MessageStoreConfig(mapped_file_size_commit_log=log_size, mapped_file_size_consume_queue=queue_size,
    max_hash_slot_num=100, max_index_num=400)
store = MessageStore(RealStorage(root), config)
store.load()
for topic in sorted(store.reads.topics()):
    for queue_id in store.reads.queue_ids(topic):
        for offset in range(store.reads.min_offset(topic, queue_id), store.reads.max_offset(topic, queue_id)):
            for message in decode_messages(store.reads.get(topic, queue_id, offset, 1).records):
                print(topic, queue_id, offset, message.store_size)
store.put(IncomingMessage("Portable", 0, b"new"))
store.commit_pending()
store.flushing.flush_all()
store.reput()
print(store.reads.get("Portable", 0, 0, 1).records.count(b"new"), RealStorage(root).usage() > 0)
store.close()
"""


def run_as_on_windows(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS + program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_client_and_store_need_nothing_that_windows_lacks(tmp_path):
    golden = GoldenStore("5.3.3-killed", tmp_path)
    sizes = (golden.config.mapped_file_size_commit_log, golden.config.mapped_file_size_consume_queue)
    lines = run_as_on_windows(READ, str(golden.root), *map(str, sizes)).splitlines()
    assert lines.pop() == "1 True"
    expected = {
        (each["topic"], each["queueId"], each["queueOffset"], each["storeSize"])
        for each in golden.messages
        if (each["topic"], each["queueId"]) in golden.queues()
    }
    found = {(topic, int(queue), int(offset), int(size)) for topic, queue, offset, size in map(str.split, lines)}
    assert len(found) == len(lines) > 50
    assert found <= {
        (each["topic"], each["queueId"], each["queueOffset"], each["storeSize"]) for each in golden.messages
    }
    assert len(found & expected) > 50


def test_only_two_modules_ask_for_the_system():
    """That of the store, and that of the few small files of a client."""
    asking = re.compile(
        r"^\s*(?:import|from) (?:fcntl|resource|msvcrt)\b"
        r"|\bos\.(?:pread|pwrite|fdatasync|sysconf|statvfs|O_DIRECTORY|O_CLOEXEC|SEEK_DATA|SEEK_HOLE)\b",
        re.MULTILINE,
    )
    for folder in ("rocketpy", "rocketpy_broker_sim/store", "rocketpy_broker_sim/config"):
        for path in (ROOT / folder).rglob("*.py"):
            assert path.name in ("platforms.py", "small_files.py") or not asking.search(path.read_text()), path


# --- what stands in


def test_reads_and_writes_by_seeking_are_those_by_position(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    descriptor = os.open(path, platforms.OPEN_FLAGS)
    try:
        assert (
            platforms._seek_and_read(descriptor, 10, 95) == platforms.pread(descriptor, 10, 95) == bytes(range(95, 100))
        )
        assert platforms._seek_and_write(descriptor, b"xyz", 50) == 3
        assert platforms.pread(descriptor, 5, 49) == b"\x31xyz\x35"
    finally:
        os.close(descriptor)


def test_macos_is_asked_for_the_drive_too_and_a_refusal_falls_back(tmp_path, monkeypatch):
    asked = []

    def control(descriptor: int, command: int) -> None:
        asked.append(command)
        if len(asked) == 2:
            raise OSError(errno.ENOTSUP, "not here")

    monkeypatch.setattr(platforms, "_fcntl", types.SimpleNamespace(F_FULLFSYNC=51, fcntl=control))
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    sync = platforms._data_sync()
    sync(7)
    assert (asked, synced) == ([51], [])
    sync(8)
    assert (asked, synced) == ([51, 51], [8])


def test_without_fdatasync_all_of_the_file_is_synced(monkeypatch):
    monkeypatch.delattr(os, "fdatasync")
    assert platforms._data_sync() is os.fsync


@pytest.mark.parametrize(
    ("system", "release", "usable"),
    [("Linux", "5.8.0-x", True), ("Linux", "5.7.9", False), ("Darwin", "23.1.0", False)],
)
def test_a_whole_file_system_is_synced_where_failures_are_told(tmp_path, monkeypatch, system, release, usable):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: release)
    assert platforms.sync_tree(tmp_path) == (usable and sys.platform == "linux")


def test_windows_locks_the_first_byte(tmp_path, monkeypatch):
    held = set()

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count, os.lseek(descriptor, 0, os.SEEK_CUR)) == (2, 1, 0)
        if held:
            raise PermissionError(errno.EACCES, "held")
        held.add(descriptor)

    monkeypatch.setattr(platforms, "_fcntl", None)
    monkeypatch.setattr(platforms, "_msvcrt", types.SimpleNamespace(LK_NBLCK=2, locking=locking))
    release = RealStorage(tmp_path).lock("lock")
    with pytest.raises(BlockingIOError, match="locked by another process"):
        RealStorage(tmp_path).lock("other")
    release()
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_extents_cover_the_whole_file_where_nobody_can_tell(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "SEEK_DATA")
    assert list(platforms.data_extents(0, 10, 100)) == [(10, 100)]


def test_limits_and_sizes_without_a_system_to_ask(tmp_path, monkeypatch):
    assert platforms.memory_size() > 1024**2
    assert platforms.max_open_files() > 0
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(platforms, "_resource", None)
    assert platforms.memory_size() == 8 * 1024**3
    assert platforms.max_open_files() == 512
    assert 0 < platforms.disk_usage(tmp_path) < 1


def test_a_process_takes_all_the_files_it_may_have(monkeypatch):
    limits = [100, 5000]
    fake = types.SimpleNamespace(
        RLIMIT_NOFILE=7, getrlimit=lambda kind: tuple(limits), setrlimit=lambda kind, new: limits.__setitem__(0, new[0])
    )
    monkeypatch.setattr(platforms, "_resource", fake)
    platforms.raise_max_open_files()
    assert (limits, platforms.max_open_files()) == ([5000, 5000], 5000)

    def refuse(kind: int, new: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(fake, "setrlimit", refuse)
    platforms.raise_max_open_files()
    monkeypatch.setattr(platforms, "_resource", None)
    platforms.raise_max_open_files()


# --- pages in memory


def locked_kilobytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmLck:\s+(\d+) kB", status).group(1))


@pytest.mark.skipif(sys.platform != "linux", reason="counts the locked pages as Linux tells them")
def test_pages_of_a_view_stay_in_memory_until_it_is_closed(tmp_path):
    storage = RealStorage(tmp_path)
    file = storage.open("file", create=True)
    file.truncate(64 * 1024)
    view = file.map()
    before = locked_kilobytes()
    view.lock_in_memory()
    assert locked_kilobytes() == before + 64
    view.close()
    assert locked_kilobytes() == before
    file.close()


def test_locked_pages_are_brought_into_memory(monkeypatch):
    calls = []
    library = types.SimpleNamespace(
        mlock=lambda address, size: calls.append(("mlock", address.value, size.value)) or 0,
        madvise=lambda address, size, advice: calls.append((advice.value, address.value, size.value)) or 0,
    )
    monkeypatch.setattr(platforms, "_libc", lambda: library)
    with mmap.mmap(-1, 8192) as mapping:
        platforms.lock_pages(mapping)
    (_, address, _), _ = calls
    assert address
    assert calls == [("mlock", address, 8192), (mmap.MADV_WILLNEED, address, 8192)]


def test_a_system_without_mlock_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(4096))
    with (tmp_path / "file").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        monkeypatch.setattr(os, "name", "nt")
        with pytest.raises(OSError, match="this system has no mlock"):
            platforms.lock_pages(mapping)
        monkeypatch.undo()
