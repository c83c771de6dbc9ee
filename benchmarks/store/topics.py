"""Many topics: the same sends spread over one topic, and over up to ten thousand, with four queues each.

Every message goes to another queue than the one before it. A broker for each number of topics is up, and they take
turns. Each queue has had a message before anything is measured; what that takes is noted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from benchmarks.bars import OURS
from benchmarks.budget import Budget
from benchmarks.frames import send_frame
from benchmarks.measure import Row
from benchmarks.processes import rss_megabytes
from benchmarks.store.brokers import Broker, ours
from benchmarks.store.measure import QUEUES, Bench, Sample, StoreMeasure, directory
from benchmarks.store.senders import concurrent
from benchmarks.task import LARGE_BODY, WINDOW, Outcome

NUMBERS = (1, 64, 1_000, 10_000)
TURNS = 3

ROWS = (
    Row("store-topics-1", "sends to 1 topic x 4 queues", "/s", kind="store"),
    *(
        Row(f"store-topics-{n}", f"sends to {n:,} topics x 4 queues", "/s", "store-topics-1", "store")
        for n in NUMBERS[1:]
    ),
    *(Row(f"store-topics-{n}-restart", f"restart with {n:,} topics", "s", kind="store") for n in NUMBERS[1:]),
    *(Row(f"store-topics-{n}-rss", f"memory with {n:,} topics", "MB", kind="store") for n in NUMBERS[1:]),
)


def take(bench: Bench) -> Iterator[Sample]:
    """All numbers in turn, then each broker is stopped and started once more."""
    numbers = [number for number in NUMBERS if number <= bench.scale.most_topics]
    with directory() as place, ExitStack() as stack:
        brokers = {}
        for number in numbers:
            bench.say(f"making {number:,} topics")
            write_topics(place / str(number), number)
            brokers[number] = stack.enter_context(ours(place / str(number)))
            _touch(brokers[number], number)
        for _ in range(TURNS):
            for number, broker in brokers.items():
                bench.say(f"sending to {number:,} topics")
                yield f"store-topics-{number}", OURS, _rate(broker, number, bench.scale.seconds / TURNS)
        for number, broker in brokers.items():
            if number > 1:
                bench.say(f"stopping and starting with {number:,} topics")
                yield from _restart(broker, place / str(number), number)


def write_topics(home: Path, number: int) -> None:
    """The table of topics, so that they are there when the broker starts."""
    table = {
        name: {"topicName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
        for name in map(_topic, range(number))
    }
    path = home / "store" / "config" / "topics.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"topicConfigTable": table}), "ascii")


def _topic(index: int) -> str:
    return f"BenchMany{index:05d}"


def _touch(broker: Broker, number: int) -> None:
    """One message to each queue."""
    concurrent(broker.address, _frames(number), Budget(600.0, QUEUES * number), broker.pid, window=WINDOW)


def _frames(number: int) -> list[bytes]:
    return [send_frame(_topic(index), queue, LARGE_BODY) for queue in range(QUEUES) for index in range(number)]


def _rate(broker: Broker, number: int, seconds: float) -> Outcome:
    return concurrent(broker.address, _frames(number), Budget(seconds, 10**9), broker.pid, window=WINDOW)


def _restart(broker: Broker, home: Path, number: int) -> Iterator[Sample]:
    memory = rss_megabytes(broker.pid)
    assert broker.child is not None, "it is ours"
    broker.child.stop(300.0)
    if memory is not None:
        yield f"store-topics-{number}-rss", OURS, Outcome(memory, number)
    with ours(home) as again:
        assert again.serves_after is not None, "it is ours"
        yield f"store-topics-{number}-restart", OURS, Outcome(again.serves_after, number)


MEASURE = StoreMeasure("store-topics", ROWS, take)
