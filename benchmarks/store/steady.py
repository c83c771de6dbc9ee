"""Stalls: messages at a steady rate, open-loop, against ours and Apache's in turn, while files roll and are flushed.

The files of the log are small and warmed up, so that each run goes through a roll every few seconds. The pauses of our
garbage collector are taken from within the broker's process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bars import OURS
from benchmarks.measure import Row
from benchmarks.store.brokers import Broker, apaches, ours
from benchmarks.store.measure import QUEUES, TOPIC, Bench, Sample, StoreMeasure, directory
from benchmarks.store.open_loop import Latencies, send_steadily
from benchmarks.store.timeline import Timeline
from benchmarks.store.watched import Pause, read_pauses
from benchmarks.task import LARGE_BODY, Outcome

RATE = 3_000.0
SLICES = 6
"""The time of a run is cut into so many pieces, which ours and Apache's take in turn."""
SETTINGS = {"mappedFileSizeCommitLog": 1 << 24, "warmMapedFileEnable": "true"}

_TITLE = "3,000 messages/s:"
ROWS = (
    Row("store-steady-p50", f"{_TITLE} p50", "ms", kind="store"),
    Row("store-steady-p99", f"{_TITLE} p99", "ms", kind="store"),
    Row("store-steady-p999", f"{_TITLE} p99.9", "ms", kind="store"),
    Row("store-steady-max", f"{_TITLE} longest", "ms", kind="store"),
    Row("store-steady-over-10", f"{_TITLE} above 10 ms", "", kind="store"),
    Row("store-steady-over-50", f"{_TITLE} above 50 ms", "", kind="store"),
    Row("store-steady-over-500", f"{_TITLE} above 500 ms", "", kind="store"),
    Row("store-steady-late", f"{_TITLE} sender late by, p99.9", "ms", kind="store"),
    Row("store-gc-max", f"{_TITLE} longest garbage collection", "ms", kind="store"),
    Row("store-gc-share", f"{_TITLE} share of garbage collection", "%", kind="store"),
)


def take(bench: Bench) -> Iterator[Sample]:
    """Slices in turn, then what came of them."""
    with directory() as place:
        found = _run(bench, place)
        pauses = read_pauses(place / "pauses")
    for make, latencies in found.items():
        yield from _figures(make, latencies)
    yield from _collections(found[OURS], pauses)
    bench.draw(Timeline(found, pauses))


def _run(bench: Bench, place: Path) -> dict[str, Latencies]:
    with ExitStack() as stack:
        command = ("-m", "benchmarks.store.watched", str(place / "pauses"))
        own = stack.enter_context(ours(place, SETTINGS, command=command))
        brokers = [own]
        if bench.apache is not None:
            bench.say("Apache's broker starts")
            brokers.append(stack.enter_context(apaches(bench.apache, SETTINGS)))
        for broker in brokers:
            broker.create_topic(TOPIC, QUEUES)
            bench.say(f"warming up {broker.make}")
            _slice(broker, bench.scale.warm_seconds)
        found = _slices(bench, brokers)
        assert own.child is not None, "it is ours"
        own.child.stop()
        return found


def _slices(bench: Bench, brokers: Sequence[Broker]) -> dict[str, Latencies]:
    found = {broker.make: Latencies() for broker in brokers}
    for number in range(1, SLICES + 1):
        for broker in brokers:
            bench.say(f"slice {number} of {SLICES}, {broker.make}")
            found[broker.make].extend(_slice(broker, bench.scale.steady_seconds / SLICES))
    return found


def _slice(broker: Broker, seconds: float) -> Latencies:
    queues = [(TOPIC, queue) for queue in range(QUEUES)]
    return send_steadily(broker.address, queues, LARGE_BODY, rate=RATE, count=max(1, int(RATE * seconds)))


def _figures(make: str, latencies: Latencies) -> Iterator[Sample]:
    count = len(latencies.latency)
    for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)):
        yield f"store-steady-{name}", make, Outcome(latencies.percentile(share) * 1e3, count)
    for limit in (10, 50, 500):
        yield f"store-steady-over-{limit}", make, Outcome(latencies.above(limit / 1e3), count)
    late = sorted(latencies.late)
    yield "store-steady-late", make, Outcome(late[min(count - 1, int(0.999 * count))] * 1e3, count)


def _collections(latencies: Latencies, pauses: Sequence[Pause]) -> Iterator[Sample]:
    """Those that fell into the measured slices."""
    begin, end = latencies.due[0], latencies.due[-1] + latencies.latency[-1]
    within = [pause for pause in pauses if begin <= pause.began <= end]
    longest = max((pause.seconds for pause in within), default=0.0)
    each = {f"gen{generation}_": sum(p.generation == generation for p in within) for generation in range(3)}
    yield "store-gc-max", OURS, Outcome(longest * 1e3, len(within), notes=dict(each))
    yield "store-gc-share", OURS, Outcome(100 * sum(pause.seconds for pause in within) / (end - begin), len(within))


MEASURE = StoreMeasure("store-steady", ROWS, take)
