"""More queues than a process may have files: how many stay open, and that those that do are of use."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.queue import table as queue_table
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

QUEUES = 24
ALLOWED = 8


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every file that is opened, in a process that may have few."""
    found: list[str] = []
    real = MemoryStorage.open

    def noted(self: MemoryStorage, path: str, *, create: bool = False):
        found.append(path)
        return real(self, path, create=create)

    monkeypatch.setattr(queue_table, "max_open_files", lambda: 2 * ALLOWED)
    monkeypatch.setattr(queue_table, "MIN_OPEN", 1)
    monkeypatch.setattr(MemoryStorage, "open", noted)
    return found


def round_of(store: MessageStore, number: int) -> None:
    """One message to each queue, each in a turn of its own."""
    for queue in range(QUEUES):
        put_all(store, [message(b"%d" % number, queue_id=queue)])


def open_queues(store: MessageStore) -> int:
    return sum(file._file is not None for queue in store._queues for file in queue.row.files)


def test_no_more_files_stay_open_than_allowed_and_one(opened: list[str]):
    store = open_store(message_index_enable=False)
    for number in range(12):
        round_of(store, number)
        assert open_queues(store) <= ALLOWED + 1
    assert [bodies(store, queue_id=queue) for queue in range(QUEUES)] == [[b"%d" % n for n in range(12)]] * QUEUES


def test_those_that_stay_open_are_of_use_though_others_come_by(opened: list[str]):
    store = open_store(message_index_enable=False, mapped_file_size_consume_queue=2000)
    round_of(store, 0)
    opened.clear()
    for number in range(1, 11):
        round_of(store, number)
    assert len(opened) <= 10 * (QUEUES - ALLOWED // 2)


def test_a_queue_that_is_used_again_and_again_stays_open_at_last(opened: list[str]):
    store = open_store(message_index_enable=False, mapped_file_size_consume_queue=2000)
    round_of(store, 0)
    for number in range(40):
        put_all(store, [message(b"hot", queue_id=QUEUES - 1), message(b"cold", queue_id=number % ALLOWED + 8)])
    opened.clear()
    put_all(store, [message(b"hot", queue_id=QUEUES - 1)])
    assert opened == []
