"""What it means that a file could not be closed: nothing, unless by it something was written that no flush covers."""

from __future__ import annotations

import errno
import os

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.queue import table
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR]


class Closing:
    """Closes of this process: they are done, and say something else.

    Attributes:
        code: What each of them says; 0 while all is well.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.code = 0
        self._close = os.close
        monkeypatch.setattr(os, "close", self._say)

    def _say(self, descriptor: int) -> None:
        self._close(descriptor)
        if self.code:
            raise OSError(self.code, os.strerror(self.code))


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> Closing:
    return Closing(monkeypatch)


@pytest.fixture
def file(tmp_path) -> MappedFile:
    made = MappedFile(RealStorage(tmp_path), "commitlog/00000000000000000000", 0, 4096)
    made.create()
    return made


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_a_close_after_a_flush_loses_nothing(code: int, apart: bool, file: MappedFile, closing: Closing):
    closing.code = code
    file.write(b"covered", 0)
    file.flush(apart=apart)
    file.close()
    file.flush(apart=apart)
    assert file.read(0, 7) == b"covered"
    closing.code = 0
    file.close()


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_a_close_before_the_flush_is_a_flush_that_failed(code: int, apart: bool, file: MappedFile, closing: Closing):
    file.write(b"covered", 0)
    file.flush(apart=apart)
    file.write(b"and not", 7)
    closing.code = code
    file.close()
    closing.code = 0
    if code == errno.EINTR:  # says nothing of the data
        file.flush(apart=apart)
    else:
        with pytest.raises(OSError, match=os.strerror(code)):
            file.flush(apart=apart)
    file.close()


@pytest.mark.parametrize("many", [1, 1000], ids=["at once", "one by one"])
def test_a_queue_whose_units_were_lost_by_its_close_ends_the_writing(tmp_path, monkeypatch, closing, many: int):
    """Queues are closed at any time, as a process may have fewer files than a broker has queues."""
    monkeypatch.setattr(table, "MANY", many)
    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(b"before")])
    store.flushing.flush_all()
    put_all(store, [message(b"after")])
    closing.code = errno.EIO
    for queue in store._queues:
        queue.close()
    closing.code = 0
    with pytest.raises(StoreError, match=r"flushing the consume queues .* until the broker is restarted"):
        store.flushing.flush_all()
    assert not store.is_writable
    store.abandon()
    again = open_store(RealStorage(tmp_path))
    assert bodies(again) == [b"before", b"after"]
    again.close()


def test_no_descriptor_is_closed_twice_though_the_first_time_failed(tmp_path, closing: Closing):
    """By then it may be another file's."""
    store = open_store(RealStorage(tmp_path))
    put_all(store, [message(b"m", properties="KEYS\x01k\x02")])
    store.flushing.prepare(everything=True)
    store.flushing.flush_all()
    put_all(store, [message(b"m", properties="KEYS\x01k\x02")])
    assert store.keys.query("Orders", "k", 9, 0, 1 << 60).records
    assert any(file._file is not None for file in store.index.files)
    closing.code = errno.EIO
    store.index.close()
    closing.code = 0
    others = [os.open(tmp_path, os.O_RDONLY) for _ in range(8)]
    store.index.close()
    for other in others:
        os.fstat(other)
        os.close(other)
    store.close()
