"""How many units there are is known to every start, so that none rebuilds its queues without a reason."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store import flushing
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all


def fill(store: MessageStore, topic: str, count: int) -> None:
    put_all(store, [message(b"%03d" % n * 30, topic=topic) for n in range(count)])


def clean(store: MessageStore) -> None:
    """Take out all that may go."""
    store.flushing.flush_all()
    while (file := store.retention.take_log_file()) is not None:
        store.retention.remove(file)
    for queue in store.retention.queues():
        store.retention.correct_queue(queue)
        while store.retention.delete_queue_file(queue) is not None:
            pass


def one_without_messages(storage) -> MessageStore:
    """A store with a topic whose messages have all expired."""
    store = open_store(storage)
    fill(store, "Old", 30)
    fill(store, "Orders", 200)
    clean(store)
    assert store.reads.min_offset("Old", 0) == store.reads.max_offset("Old", 0) == 30
    return store


@pytest.fixture
def nothing_lost(caplog: pytest.LogCaptureFixture):
    yield
    assert [record for record in caplog.get_records("call") if "have lost units" in record.getMessage()] == []


@pytest.mark.usefixtures("nothing_lost")
def test_queues_whose_messages_have_expired_are_no_loss(tmp_path):
    one_without_messages(RealStorage(tmp_path)).close()
    again = open_store(RealStorage(tmp_path))
    assert again.reads.max_offset("Old", 0) == 30
    again.close()


@pytest.mark.usefixtures("nothing_lost")
def test_queues_whose_messages_have_expired_are_no_loss_after_a_crash():
    storage = MemoryStorage()
    store = one_without_messages(storage)
    store.flushing.flush_all()
    assert open_store(storage.clone()).reads.max_offset("Old", 0) == 30


@pytest.mark.usefixtures("nothing_lost")
@pytest.mark.parametrize("flushed", [True, False])
def test_deleting_what_has_no_messages_leaves_no_doubt(flushed: bool):
    storage = MemoryStorage()
    store = one_without_messages(storage)
    if flushed:
        store.flushing.flush_all()
    store.delete_topics(["Old"])
    for each in (store, open_store(storage.clone())):
        assert each.reads.topics() == {"Orders"}
    assert store.flushing.checkpoint.units == 200
    put_all(store, [message(b"more")])
    store.flushing.flush_all()
    assert store.flushing.checkpoint.units == 201
    open_store(storage.clone())


@pytest.mark.usefixtures("nothing_lost")
def test_a_flush_in_the_midst_of_a_dispatch_counts_nothing_too_early():
    """A thread flushes when some queues have their units, and nobody knows yet how far the log is dispatched."""
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, "Orders", 20)
    store.flushing.flush_all()
    killed = []

    def thread(requests):
        store.flushing.flush_all()
        killed.append(storage.clone())

    store._dispatcher.readers.append(thread)
    fill(store, "Orders", 20)
    assert store.flushing.checkpoint.units == 20
    again = open_store(killed[0])
    assert len(bodies(again)) == 40


@pytest.mark.usefixtures("nothing_lost")
def test_a_flush_that_began_before_a_topic_was_deleted_does_not_count_it(monkeypatch):
    storage = MemoryStorage()
    store = open_store(storage)
    fill(store, "Gone", 20)
    fill(store, "Orders", 20)
    store.flushing.flush_all()
    fill(store, "Orders", 1)
    real = store._queues.flush

    def flush_while_the_loop_deletes(least_pages: int) -> None:
        store.delete_topics(["Gone"])
        real(least_pages)

    monkeypatch.setattr(store._queues, "flush", flush_while_the_loop_deletes)
    store.flushing.flush_all()
    assert flushing.read_checkpoint(storage).units is None
    again = open_store(storage.clone())
    assert again.reads.topics() == {"Orders"}
    monkeypatch.undo()
    fill(store, "Orders", 1)
    store.flushing.flush_all()
    assert flushing.read_checkpoint(storage).units == 22
