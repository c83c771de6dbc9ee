"""Consume queues: what an entry says, how they are rebuilt, and where they begin after a cleaning."""

from __future__ import annotations

import pytest

from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.store import deleted_topics
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import GetMessageStatus
from rocketpy_broker_sim.store.queue.consume_queue import FILLER_SIZE, UNIT
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all, read_queue

LOG_FILE = 4096
QUEUE_FILE = 200
"""Ten units."""


def fill(store: MessageStore, count: int, *, topic: str = "Orders", queue_id: int = 0) -> None:
    put_all(store, [message(b"%04d" % n + bytes(500), topic=topic, queue_id=queue_id) for n in range(count)])


def clean(store: MessageStore, files: int | None = None) -> None:
    """Delete the oldest files of the log, all but the last one at most, and what only led there."""
    store.flushing.flush_all()
    while files is None or files > 0:
        file = store.retention.take_log_file()
        if file is None:
            break
        store.retention.remove(file)
        files = None if files is None else files - 1
    for queue in store.retention.queues():
        store.retention.correct_queue(queue)
        while store.retention.delete_queue_file(queue) is not None:
            pass


def queue_files(storage: MemoryStorage) -> dict[str, bytes]:
    found = {}
    for topic in storage.list("consumequeue"):
        for queue in storage.list(f"consumequeue/{topic}"):
            for name in storage.list(f"consumequeue/{topic}/{queue}"):
                path = f"consumequeue/{topic}/{queue}/{name}"
                found[path] = storage.read_bytes(path)
    return found


def delete_queues(storage: MemoryStorage) -> None:
    for path in queue_files(storage):
        storage.unlink(path)


def test_ST10_an_entry_is_position_size_and_tags_code() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    results = put_all(store, [message(b"x" * n, properties=encode_properties({"TAGS": f"t{n}"})) for n in range(14)])
    units = b"".join(content for _, content in sorted(queue_files(storage).items()))
    assert list(UNIT.iter_unpack(units))[:14] == [
        (result.physical_offset, result.size, tags_code(f"t{n}")) for n, result in enumerate(results)
    ]
    assert units[14 * 20 :] == bytes(6 * 20)


@pytest.mark.parametrize("log_start", [0, 2])
def test_ST10_building_it_anew_twice_gives_the_same(log_start: int) -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    for topic in ("Orders", "Bills"):
        for queue_id in range(2):
            fill(store, 17, topic=topic, queue_id=queue_id)
    clean(store, log_start)
    places = [(topic, queue_id) for topic in ("Orders", "Bills") for queue_id in range(2)]
    ends = {place: (store.reads.min_offset(*place), store.reads.max_offset(*place)) for place in places}
    store.close()
    original = queue_files(storage)
    rebuilt = []
    for _ in range(2):
        delete_queues(storage)
        open_store(storage).close()
        rebuilt.append(queue_files(storage))
    assert rebuilt[0] == rebuilt[1]
    if log_start == 0:
        assert rebuilt[0] == original
    again = open_store(storage)
    known = {place: (again.reads.min_offset(*place), again.reads.max_offset(*place)) for place in places}
    # A queue without any record cannot be told from one that never was.
    assert known == {key: (low, high) if low < high else (0, 0) for key, (low, high) in ends.items()}


def test_ST10_a_queue_that_begins_later_is_filled_up() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 17)
    clean(store, 2)
    low = store.reads.min_offset("Orders", 0)
    assert 10 <= low < 17
    store.close()
    delete_queues(storage)
    again = open_store(storage)
    (path, content), *rest = queue_files(storage).items()
    assert (int(path[-20:]), rest) == (QUEUE_FILE, [])
    assert [unit == (0, FILLER_SIZE, 0) for unit in UNIT.iter_unpack(content)][: low - 10] == [True] * (low - 10)
    assert (again.reads.min_offset("Orders", 0), again.reads.max_offset("Orders", 0)) == (low, 17)
    assert bodies(again)[0][:4] == b"%04d" % low


def test_ST10_what_stands_behind_the_units_that_fill_it_up_is_built_anew_after_a_crash() -> None:
    """Of a queue that was filled up all the units of records may be cut, so that only the others are left."""
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 17)
    clean(store)
    low = store.reads.min_offset("Orders", 0)
    store.close()
    delete_queues(storage)
    open_store(storage)
    killed = storage.clone()
    killed.open("checkpoint").truncate(40)  # times alone, as Apache's broker writes them
    again = open_store(killed)
    assert (again.reads.min_offset("Orders", 0), again.reads.max_offset("Orders", 0)) == (low, 17)
    assert [each.queue_offset for each in read_queue(again)] == list(range(low, 17))


def test_ST10_a_topic_that_was_made_again_begins_at_zero_though_what_is_left_of_the_old_one_does_not() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 17)
    store.delete_topics(["Orders"])
    fill(store, 5)
    clean(store, 1)
    store.close()
    delete_queues(storage)
    for path in (deleted_topics.PATH, deleted_topics.LINES_PATH):  # which Apache's broker does not write
        if storage.exists(path):
            storage.unlink(path)
    again = open_store(storage)
    assert (again.reads.min_offset("Orders", 0), again.reads.max_offset("Orders", 0)) == (0, 5)
    assert [each.queue_offset for each in read_queue(again)] == list(range(5))


@pytest.mark.parametrize("files", [1, 2, 3, None])
def test_ST10_the_first_offset_is_corrected_after_a_cleaning(files: int | None) -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 30)
    positions = {n: store._queues.find(("Orders", 0)).unit(n)[0] for n in range(30)}
    clean(store, files)
    start = store.reads.log_start
    low = store.reads.min_offset("Orders", 0)
    assert start == (files or 3) * LOG_FILE or files is None
    assert low == min(n for n, position in positions.items() if position >= start)
    assert [each.queue_offset for each in read_queue(store)] == list(range(low, 30))
    assert store.reads.get("Orders", 0, low - 1, 1).status is GetMessageStatus.OFFSET_TOO_SMALL
    assert store.reads.get("Orders", 0, low, 1).status is GetMessageStatus.FOUND
    assert store.reads.earliest_store_time("Orders", 0) > 0
    for stopped in (storage.clone(), storage):
        if stopped is storage:
            store.close()
        again = open_store(stopped)
        assert (again.reads.min_offset("Orders", 0), again.reads.max_offset("Orders", 0)) == (low, 30)
        assert [each.queue_offset for each in read_queue(again)] == list(range(low, 30))
        again.close()


def test_ST10_a_queue_without_records_keeps_its_end() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 13, topic="Old")
    fill(store, 30)
    clean(store)
    assert (store.reads.min_offset("Old", 0), store.reads.max_offset("Old", 0)) == (13, 13)
    assert store.reads.get("Old", 0, 13, 1).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
    assert store.reads.get("Old", 0, 5, 1).status is GetMessageStatus.OFFSET_TOO_SMALL
    assert storage.list("consumequeue/Old/0") == [f"{QUEUE_FILE:020d}"]
    store.close()
    again = open_store(storage)
    assert (again.reads.min_offset("Old", 0), again.reads.max_offset("Old", 0)) == (13, 13)
    (result,) = put_all(again, [message(topic="Old")])
    assert result.queue_offset == 13
    assert bodies(again, "Old") == [b"body"]


def test_ST10_units_below_the_start_of_the_log_hide_nothing() -> None:
    """A crash between the deletion of log files and that of queue files leaves such units."""
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 30)
    store.flushing.flush_all()
    for _ in range(3):
        file = store.retention.take_log_file()
        assert file is not None
        store.retention.remove(file)
    killed = storage.clone()
    assert len(killed.list("consumequeue/Orders/0")) == 3
    again = open_store(killed)
    low = again.reads.min_offset("Orders", 0)
    assert low > 0
    assert [each.queue_offset for each in read_queue(again)] == list(range(low, 30))
    fill(again, 5)
    assert again.reads.max_offset("Orders", 0) == 35
    clean(again)
    assert len(killed.list("consumequeue/Orders/0")) == 1


@pytest.mark.parametrize("emptied", [True, False])
def test_ST10_a_queue_that_begins_later_knows_its_end_when_all_its_units_are_cut(emptied: bool) -> None:
    """A crash during recovery leaves such a queue: its units were cut, and are not there again."""
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 26)
    clean(store)
    low = store.reads.min_offset("Orders", 0)
    assert low >= 20
    assert storage.list("consumequeue/Orders/0") == [f"{2 * QUEUE_FILE:020d}"]
    queue = store._queues.find(("Orders", 0))
    assert queue is not None
    queue.cut(0)
    assert (queue.max_offset, queue.row.start) == (20, 2 * QUEUE_FILE)
    killed = storage.clone()
    if emptied:
        killed.unlink(f"consumequeue/Orders/0/{2 * QUEUE_FILE:020d}")
    again = open_store(killed)
    assert again.reads.max_offset("Orders", 0) == 26
    assert [each.queue_offset for each in read_queue(again)] == list(range(low, 26))


def test_ST10_a_queue_without_records_keeps_its_end_when_others_are_built_anew() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 13, topic="Old")
    fill(store, 30)
    clean(store)
    store.flushing.flush_all()
    killed = storage.clone()
    for name in killed.list("consumequeue/Orders/0"):
        killed.unlink(f"consumequeue/Orders/0/{name}")
    again = open_store(killed)
    assert again.reads.max_offset("Orders", 0) == 30
    assert (again.reads.min_offset("Old", 0), again.reads.max_offset("Old", 0)) == (13, 13)


def test_an_empty_file_that_a_crash_left_stands_in_nobodys_way() -> None:
    """It was made, and nothing more; the queue may be rebuilt, deleted, or go on elsewhere."""
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, 12)
    storage = storage.clone()
    for name in storage.list("consumequeue/Orders/0"):
        storage.unlink(f"consumequeue/Orders/0/{name}")
    storage.open(f"consumequeue/Orders/0/{3 * QUEUE_FILE:020d}", create=True)
    again = open_store(storage)
    assert (again.reads.min_offset("Orders", 0), again.reads.max_offset("Orders", 0)) == (0, 12)
    again.close()
    again = open_store(storage)
    assert len(bodies(again)) == 12
    again.delete_topics(["Orders"])
    assert storage.list("consumequeue") == []
