"""Consumers that lag have the next messages fetched ahead; those that keep up cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy_broker_sim.store import prefetch, reading
from rocketpy_broker_sim.store.disk import memory
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.helpers import message, open_store, put_all


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is asked for, as (offset in its file, size)."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(memory.MemoryFile, "fetch", lambda self, offset, size: found.append((offset, size)))
    return found


def interleaved(queues: int) -> tuple[MessageStore, list]:
    """Ten messages for each queue, one queue after the other, in one file of the log."""
    store = open_store(MemoryStorage(), mapped_file_size_commit_log=1 << 16)
    return store, put_all(store, [message(b"%03d" % n, queue_id=n % queues) for n in range(10 * queues)])


def test_a_reader_close_to_the_end_has_nothing_fetched(fetched: list[tuple[int, int]]):
    store, _ = interleaved(2)
    assert store.reads.get("Orders", 0, 0, 4).count == 4
    assert fetched == []


def test_a_reader_far_behind_has_the_messages_of_its_next_read_fetched(
    fetched: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "BACKLOG", 0)
    monkeypatch.setattr(prefetch, "NEAR", 0)
    store, results = interleaved(2)
    assert store.reads.get("Orders", 0, 0, 3).count == 3
    following = [result for result in results[::2] if 3 <= result.queue_offset < 6]
    assert fetched == [(result.physical_offset, result.size) for result in following]


def test_neighbours_are_fetched_as_one_part(fetched: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "BACKLOG", 0)
    store, results = interleaved(2)
    store.reads.get("Orders", 0, 0, 3)
    first, last = (next(r for r in results[::2] if r.queue_offset == offset) for offset in (3, 5))
    assert fetched == [(first.physical_offset, last.end - first.physical_offset)]


def test_at_the_end_of_a_queue_there_is_nothing_to_fetch(
    fetched: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "BACKLOG", -1)
    store, _ = interleaved(1)
    assert store.reads.get("Orders", 0, 0, 32).count == 10
    assert fetched == []


def test_a_real_file_takes_the_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "BACKLOG", 0)
    store = open_store(RealStorage(tmp_path), mapped_file_size_commit_log=1 << 16)
    put_all(store, [message(b"%03d" % n) for n in range(10)])
    assert [store.reads.get("Orders", 0, offset, 3).count for offset in (0, 3, 6, 9)] == [3, 3, 3, 1]
    store.close()
