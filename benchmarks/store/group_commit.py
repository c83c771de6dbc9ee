"""Group commit: what one sender reaches when every send waits for the disk, and what 64 of them reach together.

The messages are small: it is the number of flushes that counts, not what they carry.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.budget import Budget
from benchmarks.frames import send_frame
from benchmarks.measure import Row
from benchmarks.store.brokers import Broker, side_by_side
from benchmarks.store.measure import QUEUES, TOPIC, Bench, Sample, StoreMeasure
from benchmarks.store.senders import concurrent
from benchmarks.task import BODY, Outcome

SENDERS = 64
TURNS = 3
SETTINGS = {"flushDiskType": "SYNC_FLUSH"}

ROWS = (
    Row("store-sync-1", "SYNC_FLUSH, one sender", "/s", kind="store"),
    Row("store-sync-64", "SYNC_FLUSH, 64 senders over one connection", "/s", "store-sync-1", "store"),
    Row("store-sync-64x1", "SYNC_FLUSH, 64 senders, a connection each", "/s", "store-sync-1", "store"),
)


def take(bench: Bench) -> Iterator[Sample]:
    """One sender and 64 in turn, on ours and on Apache's."""
    seconds = bench.scale.seconds / TURNS
    with side_by_side(bench, SETTINGS) as brokers:
        for broker in brokers:
            broker.create_topic(TOPIC, QUEUES)
            _rate(broker, bench.scale.warm_seconds, window=SENDERS)
        for _ in range(TURNS):
            for broker in brokers:
                yield "store-sync-1", broker.make, _rate(broker, seconds)
                yield "store-sync-64", broker.make, _rate(broker, seconds, window=SENDERS)
                yield "store-sync-64x1", broker.make, _rate(broker, seconds, connections=SENDERS)


def _rate(broker: Broker, seconds: float, *, connections: int = 1, window: int = 1) -> Outcome:
    frames = [send_frame(TOPIC, queue, BODY) for queue in range(QUEUES)]
    budget = Budget(seconds, 10**9)
    return concurrent(broker.address, frames, budget, broker.pid, connections=connections, window=window)


MEASURE = StoreMeasure("store-group-commit", ROWS, take)
