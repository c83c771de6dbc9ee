"""From the log into the queues: bounded in memory, tried again, read again from the log, and never lost."""

from __future__ import annotations

import errno
import os

import pytest

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.store import reput
from rocketpy_broker_sim.store.checkpoint import read_checkpoint
from rocketpy_broker_sim.store.disk.memory import MemoryFile, MemoryStorage
from rocketpy_broker_sim.store.put_result import PutMessageStatus
from rocketpy_broker_sim.store.running_flags import RunningFlag
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all
from tests.broker_sim.store.test_faults import REFUSED

SYNC = FlushDiskType.SYNC_FLUSH


def catch_up(store) -> int:
    """Step until nothing is left; how many steps it took."""
    steps = 0
    while store.can_reput:
        store.reput()
        steps += 1
    return steps


def test_queues_that_refuse_thirty_times_mark_the_store_until_one_succeeds():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"first")])
    store.put(message(b"second"))
    store.commit_pending()
    with storage.failing("pwrite", under="consumequeue"):
        for _ in range(reput.MAX_FAILURES):
            assert store.is_writable
            with pytest.raises(StoreError, match="writing to the consume queues"):
                store.reput()
    assert store.flags.has(RunningFlag.QUEUE_ERROR)
    assert store.put(message()).status is REFUSED
    assert bodies(store) == [b"first"]
    store.reput()  # there is room again
    assert store.flags.bits == 0
    assert bodies(store) == [b"first", b"second"]
    put_all(store, [message(b"third")])
    store.close()
    assert bodies(open_store(storage)) == [b"first", b"second", b"third"]


def test_failures_count_in_a_row_only():
    storage = MemoryStorage()
    store = open_store(storage)
    for n in range(reput.MAX_FAILURES + 5):
        store.put(message(b"%d" % n))
        store.commit_pending()
        with storage.failing("pwrite", under="consumequeue"), pytest.raises(StoreError):
            store.reput()
        catch_up(store)
    assert len(bodies(store)) == reput.MAX_FAILURES + 5


def test_ST8_what_waits_in_memory_is_bounded_and_the_rest_is_read_from_the_log(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 10)
    monkeypatch.setattr(reput, "CHUNK", 7)
    seen = []
    store = open_store(on_arrival=seen.append, flush_disk_type=SYNC)
    for n in range(25):
        for queue_id in range(2):
            store.put(message(b"%d" % n, queue_id=queue_id, properties="TAGS\x01A\x02"))
        store.commit_pending()
        store.reput()
    assert (seen, store.can_reput) == ([], False)
    assert store.dispatch_behind == store.written_position
    assert store.dispatch_most_waiting <= 12
    store.flushing.commit_log.flush()
    assert catch_up(store) > 50 / 7
    for queue_id in range(2):
        assert bodies(store, queue_id=queue_id) == [b"%d" % n for n in range(25)]
        codes = [code for each in seen if each.queue_id == queue_id for code in each.tags_codes]
        assert codes == [ord("A")] * 25
    assert store.dispatch_behind == 0
    put_all(store, [message(b"last")])
    store.flushing.commit_log.flush()
    assert catch_up(store) == 1


def test_what_spans_too_much_of_the_log_is_read_again(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING_BYTES", 3000)
    store = open_store(flush_disk_type=SYNC)
    items = [BatchItem(0, b"%d" % number * 100, b"") for number in range(5)]
    for _ in range(9):
        store.put_batch(message(b"", batch=items))
        store.commit_pending()
    store.flushing.commit_log.flush()
    catch_up(store)
    assert bodies(store) == [b"%d" % number * 100 for number in range(5)] * 9


def test_a_batch_of_many_keys_comes_into_its_queue_in_parts(monkeypatch):
    monkeypatch.setattr(reput, "CHUNK", 4)
    monkeypatch.setattr(reput, "FEW_BYTES", 64)
    seen = []
    store = open_store(on_arrival=seen.append)
    keys = "KEYS\x01" + " ".join(f"k{number}" for number in range(reput.KEYS * 2)) + "\x02"
    items = [BatchItem(0, b"%d" % number, keys.encode()) for number in range(10)]
    assert store.put_batch(message(b"", batch=items)).status is PutMessageStatus.PUT_OK
    store.commit_pending()
    assert catch_up(store) == 5
    assert [len(each.tags_codes) for each in seen] == [2] * 5
    assert bodies(store) == [b"%d" % number for number in range(10)]


def test_long_keys_come_into_the_index_a_few_at_a_time(monkeypatch):
    """A batch may have megabytes of them, which would keep a broker from all its clients for half a second."""
    monkeypatch.setattr(reput, "CHUNK", 4)
    monkeypatch.setattr(reput, "FEW_BYTES", 64)
    store = open_store(mapped_file_size_commit_log=1 << 17)
    long = reput.USUAL_BYTES + 2 * reput.KEYS * reput.KEY_BYTES
    texts = [f"KEYS\x01{'k' * (long + number)}\x02" for number in range(10)]
    items = [BatchItem(0, b"%d" % number, text.encode()) for number, text in enumerate(texts)]
    assert store.put_batch(message(b"", batch=items)).status is PutMessageStatus.PUT_OK
    store.commit_pending()
    assert catch_up(store) == 5
    for number, text in enumerate(texts):
        store.put(message(b"%d" % number, properties=text))
    store.commit_pending()
    assert catch_up(store) == 10
    assert bodies(store) == [b"%d" % number for number in range(10)] * 2


def test_a_part_is_flushed_while_much_is_behind(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 4)
    store = open_store(flush_disk_type=SYNC)
    for n in range(30):
        store.put(message(b"%d" % n))
        store.commit_pending()
        if n % 9 == 4:
            store.flushing.commit_log.flush()
        if n % 4 == 1:
            catch_up(store)
            assert store.reads.get("Orders", 0, 0, 1).max_offset <= n + 1
    store.flushing.commit_log.flush()
    catch_up(store)
    assert bodies(store) == [b"%d" % n for n in range(30)]


def test_deleted_topics_do_not_come_back_when_the_log_is_read_again(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 3)
    store = open_store(flush_disk_type=SYNC)
    for n in range(6):
        for topic in ("Lost", "Gone", "Orders"):
            store.put(message(b"%d" % n, topic=topic))
        store.commit_pending()
    store.delete_topics(["Lost"])
    store.delete_topics(["Gone"])
    store.put(message(b"again", topic="Gone"))
    store.commit_pending()
    store.flushing.commit_log.flush()
    catch_up(store)
    assert bodies(store) == [b"%d" % n for n in range(6)]
    assert bodies(store, topic="Gone") == [b"again"]
    assert store.reads.topics() == {"Gone", "Orders"}


def test_a_log_that_is_damaged_where_it_is_read_again_is_told(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 3)
    storage = MemoryStorage()
    store = open_store(storage, flush_disk_type=SYNC)
    results = []
    for n in range(6):
        results.append(store.put(message(b"%d" % n)))
        store.commit_pending()
    store.flushing.commit_log.flush()
    storage.open("commitlog/00000000000000000000").pwrite(b"\xff", results[2].physical_offset + 4)
    with pytest.raises(StoreCorruptError, match=f"damaged at position {results[2].physical_offset}"):
        catch_up(store)
    assert store.can_reput


def test_ST6_a_stop_brings_everything_into_the_queues_that_waits(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 10)
    monkeypatch.setattr(reput, "CHUNK", 7)
    storage = MemoryStorage()
    store = open_store(storage, flush_disk_type=SYNC)
    for n in range(40):
        store.put(message(b"%d" % n))
        store.commit_pending()
    assert store.dispatch_behind
    end = store.written_position
    store.close()
    assert not storage.exists("abort")
    assert read_checkpoint(storage).dispatched == end
    assert bodies(open_store(storage)) == [b"%d" % n for n in range(40)]


def test_ST6_a_stop_with_undispatched_data_keeps_the_abort_file():
    storage = MemoryStorage()
    store = open_store(storage)
    put_all(store, [message(b"first")])
    store.put(message(b"second"))
    store.commit_pending()
    with storage.failing("pwrite", under="consumequeue"):
        store.close()
    assert storage.exists("abort")
    again = open_store(storage)
    assert bodies(again) == [b"first", b"second"]
    again.close()
    assert not storage.exists("abort")


def test_threat_L9_a_log_that_cannot_be_read_again_is_told_and_tried_again(monkeypatch):
    monkeypatch.setattr(reput, "MAX_WAITING", 3)
    store = open_store(flush_disk_type=SYNC)
    for n in range(6):
        store.put(message(b"%d" % n))
        store.commit_pending()
    store.flushing.commit_log.flush()

    def unreadable(self: MemoryFile, size: int, offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "pread", unreadable)
        with pytest.raises(StoreError, match="reading the commit log again at memory:/commitlog failed"):
            store.reput()
    assert store.can_reput
    catch_up(store)
    assert bodies(store) == [b"%d" % n for n in range(6)]


def test_much_that_waits_is_dispatched_a_part_at_a_time(monkeypatch):
    """After a flush that hung thousands of messages become readable at once; a step of them is a few milliseconds."""
    monkeypatch.setattr(reput, "CHUNK", 10)
    monkeypatch.setattr(reput, "FEW", 5)
    seen = []
    store = open_store(on_arrival=seen.append, flush_disk_type=SYNC)
    put_all(store, [message(b"first")])
    store.flushing.commit_log.flush()
    store.reput()
    seen.clear()
    for n in range(35):
        store.put(message(b"%d" % n))
    store.commit_pending()
    store.reput()
    store.flushing.commit_log.flush()
    ends = []
    while store.can_reput:
        store.reput()
        ends.append(store.reads.max_offset("Orders", 0))
    assert ends == [11, 21, 31, 36]
    assert [arrival.max_offset for arrival in seen] == ends
    assert len(bodies(store)) == 36


def test_fewer_are_dispatched_at_a_time_where_queues_are_new(monkeypatch):
    """Each of them takes a folder and a file."""
    monkeypatch.setattr(reput, "CHUNK", 3 * reput.NEW_QUEUE)
    monkeypatch.setattr(reput, "FEW", 3)
    store = open_store(flush_disk_type=SYNC)
    for torn in (False, True):
        if torn:
            monkeypatch.setattr(reput, "MAX_WAITING", 10)
        topic = f"Torn{torn}"
        for n in range(30):
            store.put(message(b"%d" % n, queue_id=n, topic=topic))
            store.commit_pending()
        store.flushing.commit_log.flush()
        steps, before = 0, 0
        while store.can_reput:
            store.reput()
            now = sum(store.reads.max_offset(topic, n) for n in range(30))
            assert now - before <= 4
            steps, before = steps + 1, now
        assert before == 30
        assert steps >= 8
