"""A deleted topic stays deleted: through crashes, lost files and queues that are rebuilt."""

from __future__ import annotations

import errno

import pytest

from rocketpy.errors import StoreError
from rocketpy_broker_sim.store import deleted_topics
from rocketpy_broker_sim.store.deleted_topics import LINES_PATH, PATH, DeletedTopics
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all


def fill(store: MessageStore, topic: str, count: int = 20, text: bytes = b"") -> None:
    put_all(store, [message(text + b"%04d" % n, topic=topic, queue_id=n % 2) for n in range(count)])


def deleted(storage: MemoryStorage, *, flushed: bool = True) -> MessageStore:
    """A store one of whose topics was deleted, with others before, between and behind."""
    store = open_store(storage)
    fill(store, "Kept")
    fill(store, "Gone")
    if flushed:
        store.flushing.flush_all()
    fill(store, "Kept")
    store.delete_topics(["Gone"])
    fill(store, "Kept")
    return store


def noted(storage: MemoryStorage) -> dict[str, int]:
    topics = DeletedTopics(storage)
    topics.load()
    return dict(topics)


@pytest.mark.parametrize("flushed", [True, False])
def test_ST20_after_a_crash(flushed: bool) -> None:
    storage = MemoryStorage()
    deleted(storage, flushed=flushed)
    again = open_store(storage.clone())
    assert again.reads.topics() == {"Kept"}
    assert again.reads.max_offset("Kept", 0) == 30
    assert again.reads.max_offset("Gone", 0) == 0


@pytest.mark.parametrize("unclean", [True, False])
def test_ST20_when_all_queues_are_built_anew(unclean: bool) -> None:
    storage = MemoryStorage()
    store = deleted(storage)
    if unclean:
        storage = storage.clone()
    else:
        store.close()
    for queue in range(2):
        for name in storage.list(f"consumequeue/Kept/{queue}"):
            storage.unlink(f"consumequeue/Kept/{queue}/{name}")
    again = open_store(storage)
    assert again.reads.topics() == {"Kept"}
    assert again.reads.max_offset("Kept", 0) == 30


def test_ST20_when_a_power_loss_brings_the_files_back() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, "Gone")
    fill(store, "Kept")
    store.flushing.flush_all()
    before = storage.clone()
    store.delete_topics(["Gone"])
    killed = storage.clone()
    for queue in range(2):
        for name in before.list(f"consumequeue/Gone/{queue}"):
            path = f"consumequeue/Gone/{queue}/{name}"
            killed.open(path, create=True).pwrite(before.read_bytes(path), 0)
    again = open_store(killed)
    assert again.reads.topics() == {"Kept"}
    assert killed.list("consumequeue") == ["Kept"]


@pytest.mark.parametrize("unclean", [True, False])
def test_ST20_one_that_is_made_anew_lives(unclean: bool) -> None:
    storage = MemoryStorage()
    store = deleted(storage)
    fill(store, "Gone", 7, b"new")
    if unclean:
        storage = storage.clone()
    else:
        store.close()
    again = open_store(storage)
    assert bodies(again, "Gone", 0) == [b"new%04d" % n for n in range(0, 7, 2)]
    assert bodies(again, "Gone", 1) == [b"new%04d" % n for n in range(1, 7, 2)]
    again.delete_topics(["Gone"])
    final = open_store(storage.clone())
    assert final.reads.topics() == {"Kept"}


def test_ST20_what_follows_a_torn_tail_is_not_meant() -> None:
    """The log loses its end, and new messages of the topic come where the old ones stood."""
    storage = MemoryStorage()
    store = open_store(storage)
    (first,) = put_all(store, [message(topic="Kept")])
    store.flushing.flush_all()
    fill(store, "Gone", 3)
    store.delete_topics(["Gone"])
    torn = storage.clone()
    torn.open(f"commitlog/{0:020d}").pwrite(bytes(2000), first.physical_offset + first.size)
    again = open_store(torn)
    assert noted(torn) == {"Gone": first.size}
    fill(again, "Gone", 3, b"new")
    final = open_store(torn.clone())
    assert bodies(final, "Gone", 0) == [b"new0000", b"new0002"]


def test_ST20_a_store_that_begins_anew_is_not_meant() -> None:
    storage = MemoryStorage()
    deleted(storage).close()
    for name in storage.list("commitlog"):
        storage.unlink(f"commitlog/{name}")
    storage.unlink("checkpoint")
    store = open_store(storage)
    assert noted(storage) == {}
    fill(store, "Gone", 4)
    again = open_store(storage.clone())
    assert again.reads.max_offset("Gone", 0) == 2


def test_ST20_what_the_log_forgets_is_forgotten() -> None:
    storage = MemoryStorage()
    store = deleted(storage)
    assert set(noted(storage)) == {"Gone"}
    fill(store, "Kept", 60)
    store.flushing.flush_all()
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    store.close()
    open_store(storage).close()
    assert noted(storage) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"deletedTopics": 3}', b'{"deletedTopics": {"Kept": "x"}}'])
def test_a_file_that_cannot_be_read_loses_nothing(content: bytes) -> None:
    storage = MemoryStorage()
    deleted(storage).close()
    storage.write_bytes_atomic(PATH, content)
    again = open_store(storage)
    assert again.reads.max_offset("Kept", 0) == 30


def test_a_disk_that_refuses_leaves_the_topic_alone() -> None:
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, "Orders")
    with (
        storage.failing("pwrite", code=errno.ENOSPC, under="config"),
        pytest.raises(StoreError, match="deleting topics"),
    ):
        store.delete_topics(["Orders"])
    assert store.reads.max_offset("Orders", 0) == 10
    fill(store, "Orders")
    again = open_store(storage.clone())
    assert again.reads.max_offset("Orders", 0) == 20


def test_10_000_deletions_are_written_in_lines_and_the_table_grows_no_faster_than_they_come() -> None:
    """What all of them write together is linear: doubling the deletions doubles it, and does not make it four times."""
    written = {}
    for count in (2_500, 5_000, 10_000):
        storage, total = MemoryStorage(), 0

        def add(operation: str, path: str, size: int) -> None:
            nonlocal total
            if path in (PATH, LINES_PATH):
                total += size

        topics = DeletedTopics(storage)
        storage.fault = add
        for number in range(count):
            topics.note([f"Topic{number:06d}"], 0, number + 1)
        written[count] = total
        again = DeletedTopics(storage)
        again.load()
        assert dict(again) == {f"Topic{number:06d}": number + 1 for number in range(count)}
    assert written[10_000] < 2.6 * written[5_000] < 2.6 * 2.6 * written[2_500]
    assert written[10_000] < 10_000 * 200


def test_what_is_noted_again_and_again_stays_small() -> None:
    storage = MemoryStorage()
    topics = DeletedTopics(storage)
    for number in range(5_000):
        topics.note(["Same"], 0, number + 1)
    assert noted(storage) == {"Same": 5_000}
    assert len(storage.read_bytes(LINES_PATH)) + len(storage.read_bytes(PATH)) < 20_000


@pytest.mark.parametrize("cut", range(1, 30, 4))
def test_a_line_that_is_not_whole_is_left_out_and_the_next_ones_are_found(cut: int) -> None:
    storage = MemoryStorage()
    topics = DeletedTopics(storage)
    topics.note(["First"], 0, 10)
    topics.note(["Second"], 0, 20)
    data = storage.read_bytes(LINES_PATH)
    second = len(data.splitlines()[1]) + 1
    storage.open(LINES_PATH).truncate(len(data) - min(cut, second))
    assert noted(storage) == {"First": 10}
    topics = DeletedTopics(storage)
    topics.load()
    topics.note(["Third"], 0, 30)
    topics.note(["Fourth"], 0, 30)
    assert noted(storage) == {"First": 10, "Third": 30, "Fourth": 30}


@pytest.mark.parametrize("operation", ["create", "pwrite", "fdatasync", "sync_dir"])
def test_a_deletion_that_was_refused_is_not_noted_and_the_next_one_is(operation: str) -> None:
    storage = MemoryStorage()
    topics = DeletedTopics(storage)
    with storage.failing(operation, under="config"), pytest.raises(OSError, match="No space"):
        topics.note(["Refused"], 0, 10)
    topics.note(["Taken"], 0, 20)
    topics.note(["Later"], 0, 30)
    assert noted(storage) == dict(topics) == {"Taken": 20, "Later": 30}


def test_no_more_names_are_kept_than_the_bound_and_those_that_the_log_forgot_make_room(monkeypatch) -> None:
    monkeypatch.setattr(deleted_topics, "MOST", 3)
    names = DeletedTopics(MemoryStorage())
    for number in range(3):
        assert names.has_room([f"T{number}"], 0)
        names.note([f"T{number}"], 0, 100 * (number + 1))
    assert not names.has_room(["T3"], 0)
    assert names.has_room(["T2"], 0)  # it takes no more
    assert names.has_room(["T3"], 150)
    assert dict(names) == {"T1": 200, "T2": 300}
