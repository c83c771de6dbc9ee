"""Whatever is put, rolled, flushed, stopped and killed: what survives is a prefix of the log with all that was flushed.

A kill keeps any prefix of what had not been flushed, of the log and of every queue by itself. A byte may flip in the
part that was not flushed (cut there), or in the part that was (refused when valid records follow).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.put_result import PutMessageStatus
from tests.broker_sim.store.helpers import message, open_store, read_queue

SETTINGS = {"mapped_file_size_commit_log": 2048, "mapped_file_size_consume_queue": 100}
QUEUES = [("A", 0), ("A", 1), ("B", 0)]
queues = st.sampled_from(QUEUES)
sizes = st.sampled_from([1, 1, 40, 120, 500, 1900])
flags = st.sampled_from([0, 0, 0, 4, 8, 12])


class Put(NamedTuple):
    """A message that the store has taken."""

    queue: tuple[str, int]
    body: bytes
    position: int
    size: int
    sys_flag: int

    @property
    def end(self) -> int:
        return self.position + self.size


class StoreModel(RuleBasedStateMachine):
    """The store beside a list of what it must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = MemoryStorage()
        self.count = 0
        self.written: list[Put] = []  # in log order
        self.gathered: list[Put] = []
        self.flushed_units: dict[tuple[str, int], int] = {}
        self.store = self.reopened()

    def reopened(self):
        return open_store(self.storage, enabled_append_prop_crc=True, force_verify_prop_crc=True, **SETTINGS)

    def teardown(self) -> None:
        self.store.close()

    # --- what is done

    def body(self, size: int) -> bytes:
        self.count += 1
        return b"%d." % self.count + b"x" * size

    @rule(queue=queues, size=sizes, flag=flags)
    def put(self, queue, size, flag):
        body = self.body(size)
        result = self.store.put(message(body, topic=queue[0], queue_id=queue[1], sys_flag=flag))
        fits = result.status is PutMessageStatus.PUT_OK
        assert fits or size == 1900
        if fits:
            self.gathered.append(Put(queue, body, result.physical_offset, result.size, flag))

    @rule(queue=queues, each=st.lists(st.sampled_from([1, 40, 300]), min_size=1, max_size=5))
    def put_batch(self, queue, each):
        items = [BatchItem(0, self.body(size), b"") for size in each]
        result = self.store.put_batch(message(b"", topic=queue[0], queue_id=queue[1], batch=items))
        if result.status is PutMessageStatus.PUT_OK:
            ends = [*result.offsets[1:], result.end]
            for item, position, end in zip(items, result.offsets, ends, strict=True):
                self.gathered.append(Put(queue, item.body, position, end - position, 0))

    @rule()
    def commit(self):
        self.store.commit_pending()
        self.written += self.gathered
        self.gathered = []

    @rule(kept=st.integers(0, 3000))
    def disk_full(self, kept):
        """The next commit fails half-way."""
        rooms = iter([kept])

        def fault(operation: str, path: str, size: int) -> int | None:
            room = next(rooms, None) if operation == "pwrite" else None
            return None if room is None else min(room, size - 1)

        self.storage.fault = fault
        expected = pytest.raises(StoreError, match="disk is full") if self.gathered else nullcontext()
        with expected:
            self.store.commit_pending()
        self.storage.fault = None
        self.gathered = []

    @rule()
    def reput(self):
        self.store.reput()

    @rule()
    def flush(self):
        self.store.flushing.flush_all()
        self.flushed_units = {queue: self.store.reads.max_offset(*queue) for queue in QUEUES}

    @rule()
    def flush_log(self):
        self.store.flushing.commit_log.flush()

    # --- stopping

    @rule()
    def stop(self):
        self.commit()
        self.store.close()
        self.store = self.reopened()
        self.flushed_units = {queue: self.store.reads.max_offset(*queue) for queue in QUEUES}

    @rule(data=st.data())
    def kill(self, data):
        flushed, end = self.store.flushed_position, self.store.written_position
        maxima = {queue: self.store.reads.max_offset(*queue) for queue in QUEUES}
        self.storage = self.storage.clone()
        cut = data.draw(st.integers(flushed, end), label="log kept up to")
        self.lose("commitlog", 2048, cut)
        for queue in QUEUES:
            kept = data.draw(st.integers(self.flushed_units.get(queue, 0) * 20, maxima[queue] * 20), label="units kept")
            self.lose(f"consumequeue/{queue[0]}/{queue[1]}", 100, kept)
        if cut < end and cut % 2048 and data.draw(st.booleans(), label="flip a byte behind the flushed part"):
            self.flip(data.draw(st.integers(flushed, max(flushed, cut - 1)), label="flip at"))
        self.survive(flushed, cut)

    def lose(self, folder: str, file_size: int, kept: int) -> None:
        for name in self.storage.list(folder):
            if int(name) + file_size > kept:
                self.storage.open(f"{folder}/{name}").clear(max(0, kept - int(name)))

    def flip(self, position: int) -> None:
        path = f"commitlog/{position - position % 2048:020d}"
        if self.storage.exists(path):
            file = self.storage.open(path)
            file.pwrite(bytes([file.pread(1, position % 2048)[0] ^ 0x10]), position % 2048)
            self.flipped = position

    flipped: int | None = None

    def survive(self, flushed: int, cut: int) -> None:
        """Open what is left: a prefix of the log, with all that was flushed."""
        self.gathered = []
        self.store = self.reopened()
        end = self.store.written_position
        kept = [each for each in self.written if each.end <= end]
        sure = min(cut, self.flipped) if self.flipped is not None else cut
        assert [each for each in self.written if each.end <= flushed] == kept[
            : sum(e.end <= flushed for e in self.written)
        ]
        assert len(kept) >= sum(each.end <= sure for each in self.written)
        assert self.flipped is None or not any(each.position <= self.flipped < each.end for each in kept)
        event("lost some" if len(kept) < len(self.written) else "lost none")
        self.written = kept
        self.flipped = None
        self.flushed_units = {queue: self.store.reads.max_offset(*queue) for queue in QUEUES}

    # --- what must hold

    @invariant()
    def queues_hold_a_prefix_of_what_was_put(self):
        for queue in QUEUES:
            expected = [each.body for each in self.written if each.queue == queue and each.sys_flag not in (4, 12)]
            found = [each.body for each in read_queue(self.store, *queue)]
            assert found == expected[: len(found)]

    @invariant()
    def records_are_where_the_answer_said(self):
        for each in self.written[-3:]:
            record = self.store.reads.read(each.position)
            assert record is not None
            assert len(record) == each.size
            assert each.body in record

    @rule()
    def dispatching_everything_shows_everything(self):
        self.store.reput()
        for queue in QUEUES:
            expected = [each.body for each in self.written if each.queue == queue and each.sys_flag not in (4, 12)]
            assert [each.body for each in read_queue(self.store, *queue)] == expected


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=40, stateful_step_count=25)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_recovery_may_be_repeated(data):
    """Opening twice leaves the same bytes as opening once, also when the first was killed while it ran."""
    storage = MemoryStorage()
    store = open_store(storage, **SETTINGS)
    for n in range(data.draw(st.integers(1, 40))):
        store.put(message(b"%d" % n, topic="A", queue_id=n % 2))
        if data.draw(st.booleans()):
            store.commit_pending()
            store.reput()
        if data.draw(st.integers(0, 5)) == 0:
            store.flushing.flush_all()
    killed = storage.clone()
    once, steps = killed.clone(), []
    once.fault = lambda operation, path, size: steps.append(operation)
    open_store(once, **SETTINGS)
    interrupted = killed.clone()
    left = data.draw(st.integers(0, len(steps) - 1))

    def stop_after(operation: str, path: str, size: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(5, "killed")

    interrupted.fault = stop_after
    with pytest.raises(Exception, match=r"killed|disk|opening"):
        open_store(interrupted, **SETTINGS)
    again = interrupted.clone()
    open_store(again, **SETTINGS)
    assert contents(again) == contents(once)


def contents(storage: MemoryStorage) -> dict[str, bytes]:
    """All files that hold messages."""
    found: dict[str, bytes] = {}

    def walk(folder: str) -> None:
        for name in storage.list(folder):
            path = f"{folder}/{name}"
            if storage.is_dir(path):
                walk(path)
            else:
                found[path] = storage.read_bytes(path)

    walk("commitlog")
    walk("consumequeue")
    return found


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data())
def test_threat_M12_damage_in_the_flushed_part_is_never_hidden(data):
    storage = MemoryStorage()
    options = {"enabled_append_prop_crc": True, **SETTINGS, "mapped_file_size_commit_log": 1 << 16}
    store = open_store(storage, **options)
    results = [store.put(message(b"%d" % n, topic="A")) for n in range(data.draw(st.integers(2, 20)))]
    store.commit_pending()
    store.reput()
    store.flushing.flush_all()
    left = storage.clone() if data.draw(st.booleans(), label="killed") else storage
    if left is storage:
        store.close()
    victim = data.draw(st.integers(0, len(results) - 1))
    at = results[victim].physical_offset + data.draw(st.integers(0, results[victim].size - 1))
    file = left.open("commitlog/00000000000000000000")
    file.pwrite(bytes([file.pread(1, at)[0] ^ (1 << data.draw(st.integers(0, 7)))]), at)
    if victim < len(results) - 1:
        with pytest.raises(StoreCorruptError) as caught:
            open_store(left, force_verify_prop_crc=True, **options)
        assert caught.value.offset == results[victim].physical_offset
    else:
        again = open_store(left, force_verify_prop_crc=True, **options)
        assert again.written_position == results[victim].physical_offset
        assert again.reads.max_offset("A", 0) == victim
