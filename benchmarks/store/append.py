"""Appending to the store alone, beside a loop that writes the same bytes to a bare file, one record or batch at a time.

Each step of the store puts, commits and dispatches, as a turn of the broker does; nothing is left for later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import ALONE
from benchmarks.measure import Row
from benchmarks.store.measure import QUEUES, TOPIC, Bench, Sample, StoreMeasure, directory
from benchmarks.task import BATCH, LARGE_BODY, WINDOW, Outcome
from rocketpy.wire.batch import BatchItem
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.disk import RealStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage

_PROPERTIES = "UNIQ_KEY\x017F00000100002A139A55{:012X}\x02WAIT\x01true\x02"
_KEYED = "KEYS\x01order-{}\x02" + _PROPERTIES
_BORN = 1_700_000_000_000

ROWS = (
    Row("store-pwrite", "bare pwrite, a record each", "/s", kind="store"),
    Row("store-append", "append, 1 KiB, 64 a turn", "/s", "store-pwrite", "store", goal=80_000.0),
    Row("store-append-keys", "append, 1 KiB, each with a key", "/s", "store-pwrite", "store"),
    Row("store-pwrite-100", "bare pwrite, 100 records each", "/s", kind="store"),
    Row("store-append-100", "append, batches of 100", "/s", "store-pwrite-100", "store", goal=250_000.0),
)


def take(bench: Bench) -> Iterator[Sample]:
    """Append to a new store, then write the same bytes to a bare file."""
    count = bench.scale.records
    with directory() as place:
        record = _first_record(place / "first")
        yield "store-pwrite", ALONE, _bare(place, record, count, 1)
        yield "store-append", ALONE, _alone(place / "single", plain(0), count)
        yield "store-append-keys", ALONE, _alone(place / "keys", keyed(0), count)
        yield "store-pwrite-100", ALONE, _bare(place, record, count, BATCH)
        yield "store-append-100", ALONE, _batched(place / "batches", count)


def open_store(place: Path) -> MessageStore:
    """A store with the settings it comes with."""
    store = MessageStore(RealStorage(place), MessageStoreConfig())
    store.load()
    return store


def plain(first: int) -> list[IncomingMessage]:
    """A turn of messages, spread over the queues, with ids of their own."""
    return _messages(_PROPERTIES, first)


def keyed(first: int) -> list[IncomingMessage]:
    """The same with a key each."""
    return _messages(_KEYED, first)


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
    record = store.read(0)
    store.close()
    assert record is not None, "it was just written"
    return record


def _alone(place: Path, messages: list[IncomingMessage], count: int) -> Outcome:
    store = open_store(place)
    watch = _Watch()
    for _ in range(count // WINDOW):
        for message in messages:
            store.put(message)
        store.commit_pending()
        store.reput()
    outcome = watch.outcome(count // WINDOW * WINDOW)
    store.close()
    return outcome


def batches() -> list[IncomingMessage]:
    """A batch of a hundred for each queue."""
    items = [BatchItem(0, LARGE_BODY, _PROPERTIES.format(number).encode()) for number in range(BATCH)]
    return [IncomingMessage(TOPIC, queue, b"", born_timestamp=_BORN, batch=items) for queue in range(QUEUES)]


def _batched(place: Path, count: int) -> Outcome:
    turn = batches()
    store = open_store(place)
    watch = _Watch()
    for number in range(count // BATCH):
        store.put_batch(turn[number % QUEUES])
        store.commit_pending()
        store.reput()
    outcome = watch.outcome(count // BATCH * BATCH)
    store.close()
    return outcome


def _bare(place: Path, record: bytes, count: int, worth: int) -> Outcome:
    """Write records one behind the other to a file that has its size, as a file of the log has."""
    data = record * worth
    descriptor = os.open(place / "bare", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.ftruncate(descriptor, 1 << 30)
        watch = _Watch()
        for at in range(0, count // worth * len(data), len(data)):
            os.pwrite(descriptor, data, at)
        return watch.outcome(count // worth * worth)
    finally:
        os.close(descriptor)


class _Watch:
    """Takes the time of what follows, and its CPU."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self._began = time.perf_counter()

    def outcome(self, count: int) -> Outcome:
        """So many were done."""
        seconds = time.perf_counter() - self._began
        cpu = time.process_time() - self._cpu
        return Outcome(count / seconds, count, cpu * 100_000 / count)


MEASURE = StoreMeasure("store-append", ROWS, take, turns=3)
