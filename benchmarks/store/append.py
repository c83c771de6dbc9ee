"""Appending to the store alone, beside a loop that writes the same bytes to a bare file, one record or batch at a time.

Each turn puts, writes and then dispatches, as a turn of the broker does; appending and dispatching are timed apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bars import ALONE
from benchmarks.measure import Row
from benchmarks.store.measure import QUEUES, TOPIC, Bench, Sample, StoreMeasure, directory
from benchmarks.task import BATCH, LARGE_BODY, WINDOW, Outcome
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage

_PROPERTIES = "UNIQ_KEY\x017F00000100002A139A55{:012X}\x02WAIT\x01true\x02"
_KEYED = "KEYS\x01order-{}\x02" + _PROPERTIES
_BORN = 1_700_000_000_000

ROWS = (
    Row("store-pwrite", "bare pwrite, a record each", "/s", kind="store"),
    Row("store-append", "append, 1 KiB, 64 a turn", "/s", "store-pwrite", "store", goal=80_000.0),
    Row("store-append-100", "append, batches of 100", "/s", "store-pwrite", "store", goal=250_000.0),
    Row("store-pwrite-100", "bare pwrite, 100 records each", "/s", kind="store"),
    Row("store-whole", "append and dispatch, without the index", "/s", "store-pwrite", "store"),
    Row("store-whole-index", "append and dispatch, index of unique keys", "/s", "store-pwrite", "store"),
    Row("store-whole-keys", "append and dispatch, index of a further key each", "/s", "store-pwrite", "store"),
    Row("store-reput", "dispatch alone, index of unique keys", "/s", "store-append", "store"),
    Row("store-behind", "most that waits for dispatch after a turn", "bytes", kind="store"),
)


@dataclass(frozen=True)
class Timing:
    """What a run of turns took.

    Attributes:
        messages: How many were put.
        appending: Seconds of putting and writing.
        dispatching: Seconds of what follows.
        cpu: Of both.
        behind: Bytes of the log that waited for dispatch after a turn, at most.
    """

    messages: int
    appending: float
    dispatching: float
    cpu: float
    behind: int

    def appended(self) -> Outcome:
        """The rate of appending."""
        return Outcome(self.messages / self.appending, self.messages)

    def dispatched(self) -> Outcome:
        """The rate of dispatching."""
        return Outcome(self.messages / self.dispatching, self.messages)

    def whole(self) -> Outcome:
        """The rate of both together."""
        return Outcome(
            self.messages / (self.appending + self.dispatching), self.messages, self.cpu * 100_000 / self.messages
        )


def take(bench: Bench) -> Iterator[Sample]:
    """Append to new stores, and write the same bytes to a bare file in between."""
    count = bench.scale.records
    with directory() as place:
        record = _first_record(place / "first")
        yield "store-pwrite", ALONE, _bare(place, record, count, 1)
        plainly = run_turns(place / "single", plain, count, index=False)
        yield "store-append", ALONE, plainly.appended()
        yield "store-whole", ALONE, plainly.whole()
        yield "store-pwrite-100", ALONE, _bare(place, record, count, BATCH)
        yield "store-append-100", ALONE, run_turns(place / "batches", one_batch, count, index=False).appended()
        indexed = run_turns(place / "index", plain, count)
        yield "store-whole-index", ALONE, indexed.whole()
        yield "store-reput", ALONE, indexed.dispatched()
        yield "store-behind", ALONE, Outcome(indexed.behind, indexed.messages)
        yield "store-whole-keys", ALONE, run_turns(place / "keys", keyed, count).whole()


def open_store(place: Path, *, index: bool = True) -> MessageStore:
    """A store with the settings it comes with."""
    store = MessageStore(RealStorage(place), MessageStoreConfig(message_index_enable=index))
    store.load()
    return store


def open_log(place: Path, file_size: int) -> MessageStore:
    """A store with files of the log of another size."""
    store = MessageStore(RealStorage(place), MessageStoreConfig(mapped_file_size_commit_log=file_size))
    store.load()
    return store


def run_turns(
    place: Path, turn: Callable[[int], Sequence[IncomingMessage]], count: int, *, index: bool = True
) -> Timing:
    """Put so many messages into a new store, turn by turn.

    Args:
        place: Where it lies.
        turn: Makes the messages of a turn, by the number of the first.
        count: Of messages; whole turns of it are done.
        index: Whether the store keeps an index of keys.
    """
    store = open_store(place, index=index)
    appending = dispatching = cpu = 0.0
    done = behind = 0
    while done < count:
        messages = turn(done)
        used, began = time.process_time(), time.perf_counter()
        for message in messages:
            if message.batch is None:
                store.put(message)
            else:
                store.put_batch(message)
        store.commit_pending()
        written = time.perf_counter()
        store.reput()
        dispatching += time.perf_counter() - written
        appending += written - began
        cpu += time.process_time() - used
        behind = max(behind, store.dispatch_behind)
        done += sum(1 if message.batch is None else len(message.batch) for message in messages)
    store.close()
    return Timing(done, appending, dispatching, cpu, behind)


def plain(first: int) -> list[IncomingMessage]:
    """A turn of messages, spread over the queues, with ids of their own."""
    return _messages(_PROPERTIES, first)


def keyed(first: int) -> list[IncomingMessage]:
    """The same with a key each."""
    return _messages(_KEYED, first)


def one_batch(first: int) -> list[IncomingMessage]:
    """A batch of a hundred, for one queue after the other."""
    items = [BatchItem(0, LARGE_BODY, _PROPERTIES.format(first + index).encode()) for index in range(BATCH)]
    return [IncomingMessage(TOPIC, first // BATCH % QUEUES, b"", born_timestamp=_BORN, batch=items)]


def _messages(properties: str, first: int) -> list[IncomingMessage]:
    return [
        IncomingMessage(
            TOPIC, number % QUEUES, LARGE_BODY, properties.format(number, number), born_timestamp=_BORN, tags_code=0
        )
        for number in range(first, first + WINDOW)
    ]


def _first_record(place: Path) -> bytes:
    """The bytes that one message becomes."""
    store = open_store(place)
    store.put(plain(0)[0])
    store.commit_pending()
    record = store.reads.read(0)
    store.close()
    assert record is not None, "it was just written"
    return record


def _bare(place: Path, record: bytes, count: int, worth: int) -> Outcome:
    """Write records one behind the other to a file that has its size, as a file of the log has."""
    data = record * worth
    descriptor = os.open(place / "bare", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.ftruncate(descriptor, 1 << 30)
        used, began = time.process_time(), time.perf_counter()
        for at in range(0, count // worth * len(data), len(data)):
            os.pwrite(descriptor, data, at)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
    finally:
        os.close(descriptor)
    done = count // worth * worth
    return Outcome(done / seconds, done, cpu * 100_000 / done)


MEASURE = StoreMeasure("store-append", ROWS, take, turns=3)
