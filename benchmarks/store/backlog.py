"""A backlog: sends while another group reads messages that are on the disk only, and one of 64 interleaved topics read.

The topics lie in the log one message behind the other. Files of the log are small, so that opening the store warms
none but the last; then their pages are dropped. The reader is a process of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bars import OURS
from benchmarks.budget import Budget, Meter
from benchmarks.frames import Wire, pull_frame, send_frame, split
from benchmarks.measure import Row
from benchmarks.processes import Child
from benchmarks.store.append import open_log
from benchmarks.store.brokers import Broker, ours
from benchmarks.store.measure import QUEUES, TOPIC, Bench, Sample, StoreMeasure, directory
from benchmarks.store.opening import drop_pages
from benchmarks.store.senders import concurrent
from benchmarks.task import LARGE_BODY, WINDOW, Outcome
from rocketpy_broker_sim.store.put_result import IncomingMessage

FILE_SIZE = 1 << 25
TURNS = 3
SETTINGS = {"mappedFileSizeCommitLog": FILE_SIZE}

ROWS = (
    Row("store-pull-warm", "pull one of 64 topics, warm", "/s", kind="store"),
    Row("store-pull-cold", "pull one of 64 topics, cold", "/s", "store-pull-warm", "store"),
    Row("store-send-alone", "sends, nobody reads", "/s", kind="store"),
    Row("store-send-backlog", "sends while a cold backlog is read", "/s", "store-send-alone", "store"),
    Row("store-read-backlog", "the reader of that backlog", "/s", kind="store"),
)


def take(bench: Bench) -> Iterator[Sample]:
    """One topic cold and warm; then, with another broker for each turn, sends alone and beside the reader."""
    with directory() as place:
        bench.say("making the backlog")
        each = _fill(place / "store", bench.scale.backlog, bench.scale.backlog_topics)
        with ours(place, SETTINGS) as broker:
            drop_pages(place / "store")
            bench.say("pulling one topic")
            cold = _pull(broker, _topic(0), each)
            warm = _pull(broker, _topic(0), each)
            yield "store-pull-cold", OURS, cold
            yield "store-pull-warm", OURS, warm
        for number in range(TURNS):
            bench.say(f"sending beside a reader, {number + 1} of {TURNS}")
            yield from _beside(place, bench.scale.backlog_topics, bench.scale.seconds / TURNS)


def _topic(number: int) -> str:
    return f"BenchBacklog{number:02d}"


def _fill(place: Path, count: int, topics: int) -> int:
    """Put messages to all topics in turn; how many each queue has."""
    store = open_log(place, FILE_SIZE)
    rounds = max(1, count // (topics * QUEUES))
    for number in range(rounds * QUEUES):
        for topic in range(topics):
            store.put(IncomingMessage(_topic(topic), number % QUEUES, LARGE_BODY, tags_code=0))
        store.commit_pending()
        store.reput()
    store.close()
    return rounds


def _pull(broker: Broker, topic: str, each: int) -> Outcome:
    """Read every queue of a topic, one pull in flight."""
    pulled = 0
    with Wire(broker.address) as wire:
        meter = Meter(broker.pid)
        meter.start()
        for queue in range(QUEUES):
            pulled += read_queue(wire, topic, queue, each)
        meter.stop()
    return Outcome.rate(pulled, meter)


def read_queue(wire: Wire, topic: str, queue: int, end: int) -> int:
    """Pull a queue from its start up to an offset; how many messages."""
    offset = 0
    while offset < end:
        wire.socket.sendall(pull_frame("bench_backlog", topic, queue, offset))
        header, _ = split(wire.read()[0])
        following = int(header["extFields"]["nextBeginOffset"])
        if following <= offset:
            break
        offset = following
    return offset


def _beside(place: Path, topics: int, seconds: float) -> Iterator[Sample]:
    """Sends alone, then beside a reader that begins with nothing in memory."""
    with ours(place, SETTINGS) as broker:
        broker.create_topic(TOPIC, QUEUES)
        _send(broker, seconds / 2)
        yield "store-send-alone", OURS, _send(broker, seconds)
        drop_pages(place / "store")
        reader = Child("-m", "benchmarks.store.backlog_reader", broker.address, str(topics), str(seconds))
        try:
            reader.line()
            yield "store-send-backlog", OURS, _send(broker, seconds)
            rate = float(reader.line())
            yield "store-read-backlog", OURS, Outcome(rate, int(rate * seconds))
        finally:
            reader.kill()


def _send(broker: Broker, seconds: float) -> Outcome:
    frames = [send_frame(TOPIC, queue, LARGE_BODY) for queue in range(QUEUES)]
    return concurrent(broker.address, frames, Budget(seconds, 10**9), broker.pid, window=WINDOW)


def read_for_a_while(address: str, topics: int, seconds: float) -> float:
    """Read the topics one after the other, from their starts; messages a second."""
    pulled = 0
    with Wire(address) as wire:
        began = time.perf_counter()
        for number in range(topics * QUEUES):
            if time.perf_counter() - began >= seconds:
                break
            pulled += read_queue(wire, _topic(number // QUEUES), number % QUEUES, 1 << 40)
        return pulled / (time.perf_counter() - began)


MEASURE = StoreMeasure("store-backlog", ROWS, take)
