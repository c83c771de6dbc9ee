"""A flush that could not begin costs nothing and is tried again; only one that failed ends the writing."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.store.disk.failure import FlushPostponedError
from rocketpy_broker_sim.store.disk.memory import MemoryFile, MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

SHORTAGES = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EACCES]


class Opening(MemoryStorage):
    """A disk whose files cannot be opened for a while.

    Attributes:
        refusing: What it says then; 0 while all is well.
        under: Where.
    """

    refusing = 0
    under = ""

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if self.refusing and path.startswith(self.under):
            raise OSError(self.refusing, os.strerror(self.refusing), path)
        return super().open(path, create=create)


@pytest.mark.parametrize("code", SHORTAGES)
def test_a_folder_that_cannot_be_opened_for_its_flush_ends_nothing(code):
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    for under in ("commitlog", "consumequeue"):
        with storage.failing("sync_dir", code=code, under=under):
            for _ in range(3):
                with pytest.raises(FlushPostponedError, match="flushing the"):
                    store.flushing.flush_all()
    put_all(store, [message(b"more")])
    synced = []
    storage.fault = lambda operation, path, size: synced.append(path) if operation == "sync_dir" else None
    store.flushing.flush_all()
    assert {"consumequeue", "consumequeue/Orders", "consumequeue/Orders/0"} <= set(synced)  # what was left out before
    assert store.flushed_position == store.written_position
    assert bodies(store) == [b"kept", b"more"]


@pytest.mark.parametrize("code", SHORTAGES)
@pytest.mark.parametrize("under", ["consumequeue", "checkpoint"])
def test_a_file_that_cannot_be_opened_for_its_flush_ends_nothing(code, under):
    storage = Opening()
    store = open_store(storage)
    put_all(store, [message(b"m%d" % n, queue_id=n) for n in range(5)])
    storage.refusing, storage.under = code, under
    for _ in range(3):
        with pytest.raises(FlushPostponedError):
            store.flushing.flush_all()
    assert store.is_writable
    storage.refusing = 0
    flushed = []
    storage.fault = lambda operation, path, size: flushed.append(path) if operation == "fdatasync" else None
    put_all(store, [message(b"next")])
    store.flushing.flush_all()
    assert "checkpoint" in flushed
    if under == "consumequeue":
        assert {f"consumequeue/Orders/{n}/{0:020d}" for n in range(5)} <= set(flushed)
    store.abandon()
    assert bodies(open_store(storage)) == [b"m0", b"next"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_checkpoint_that_cannot_be_written_ends_nothing(code, operation):
    """What it said before is as true as what it was to say, and the next flush writes all of it."""
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept")])
    with storage.failing(operation, code=code, under="checkpoint"), pytest.raises(FlushPostponedError, match="check"):
        store.flushing.flush_all()
    assert bodies(open_store(storage.clone())) == [b"kept"]
    put_all(store, [message(b"more")])
    store.flushing.flush_all()
    assert bodies(open_store(storage.clone())) == [b"kept", b"more"]


def test_a_topic_whose_deletion_cannot_be_noted_is_deleted_later():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"kept"), message(b"goes", topic="Goes")])
    store.flushing.flush_all()
    for operation, under in (("fdatasync", "checkpoint"), ("fdatasync", "config"), ("write_bytes_atomic", "config")):
        with storage.failing(operation, code=errno.EIO, under=under):
            try:
                store.delete_topics(["Goes"])
            except StoreError:
                assert store.reads.max_offset("Goes", 0) == 1
            else:
                pytest.fail(f"{operation} below {under} was not asked for")
    store.delete_topics(["Goes"])
    store.abandon()
    again = open_store(storage)
    assert again.reads.topics() == {"Orders"}


def test_a_process_without_descriptors_flushes_when_it_has_some_again(tmp_path):
    """The real disk, with the limit of the process used up."""
    import resource

    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(b"kept", queue_id=n) for n in range(3)])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
    taken = []
    try:
        with suppress(OSError):
            while len(taken) < 100:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        assert len(taken) < 100
        with pytest.raises(FlushPostponedError, match=r"too many open files: raise the limit"):
            store.flushing.flush_all()
        put_all(store, [message(b"without")])
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    store.flushing.flush_all()
    assert store.flushed_position == store.written_position
    store.close()
    again = open_store(RealStorage(tmp_path))
    assert bodies(again) == [b"kept", b"without"]
    again.close()
