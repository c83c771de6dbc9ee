"""64 senders while every broker of three but one takes two seconds, with the fault strategy and without.

``python -m benchmarks.slow_brokers [--seconds N]``, or ``./dev bench slow-brokers``. The brokers are a cluster of ours
in a process of its own, whose faults make them slow. As many senders of the same kind have a second cluster, where all
brokers are well; both take turns of seconds, so that a busy minute of the machine affects both.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rocketpy.sync
from benchmarks.processes import Child
from benchmarks.task import BODY
from benchmarks.trouble import BenchmarkError
from rocketpy_broker_sim import BlockingLocalCluster

NAME = "slow-brokers"
"""On the command line of ``./dev bench``."""
SECONDS = 120.0
SENDERS = 64
SLOW = 2.0
"""Seconds that a slow broker takes for each message."""
BROKERS, SLOW_ONES = 3, 2
WARMING = 5.0
"""Seconds after which every sender has had the answers of slow brokers that it was waiting for."""
TURN = 2.0
"""Seconds of a turn with slow brokers; those with brokers that are well take half of it."""
BAR = 0.9
"""Share of the healthy rate that the strategy keeps."""
TOPIC = "Slow"
_EVERY_SEND = 2**31

WAYS: Mapping[str, Mapping[str, Any]] = {
    "off": {},
    "on, 4.x table": {"send_latency_enable": True, "latency_table": "4.x"},
    "on, 5.x table": {"send_latency_enable": True, "latency_table": "5.x"},
}


@dataclass(frozen=True)
class Sample:
    """What came of one way.

    Attributes:
        name: of the way.
        healthy: messages/s where all brokers are well.
        slow: messages/s where all but one are slow.
        probes: how many single sends looked whether a slow broker was well again.
        failed: sends that were not acknowledged.
    """

    name: str
    healthy: float
    slow: float
    probes: int
    failed: int

    @property
    def share(self) -> float:
        """What is left of the healthy rate."""
        return self.slow / self.healthy


class Senders:
    """Threads that send and wait, when it is their turn."""

    def __init__(self, producer: rocketpy.sync.Producer) -> None:
        self._producer = producer
        self._counts = [0] * SENDERS
        self._failed = [0] * SENDERS
        self._turn, self._over = threading.Event(), threading.Event()
        self._seconds = 0.0
        self._sent = 0
        self._pool = ThreadPoolExecutor(SENDERS)
        self._under_way = [self._pool.submit(self._keep_sending, number) for number in range(SENDERS)]

    def _keep_sending(self, number: int) -> None:
        while True:
            self._turn.wait()
            if self._over.is_set():
                return
            try:
                self._producer.send(rocketpy.Message(TOPIC, BODY))
            except rocketpy.RocketMQError:
                self._failed[number] += 1
            else:
                self._counts[number] += 1

    @property
    def failed(self) -> int:
        """Sends that were not acknowledged, so far."""
        return sum(self._failed)

    def take_turn(self, seconds: float) -> None:
        """Send for so long; what is under way then ends by itself."""
        began, before = time.perf_counter(), sum(self._counts)
        self._turn.set()
        time.sleep(seconds)
        self._turn.clear()
        self._seconds += time.perf_counter() - began
        self._sent += sum(self._counts) - before

    def start_counting(self) -> None:
        """What was sent so far was for warming up."""
        self._seconds, self._sent = 0.0, 0

    @property
    def rate(self) -> float:
        """Acknowledged messages/s in all turns."""
        return self._sent / self._seconds

    def end(self) -> None:
        """Let all of them end, and raise what a bug has raised in one."""
        self._over.set()
        self._turn.set()
        self._pool.shutdown()
        for each in self._under_way:
            each.result()


@contextmanager
def cluster() -> Iterator[tuple[Child, str]]:
    """The cluster in its process, and where its name server listens."""
    child = Child("-m", "benchmarks.slow_brokers", "--serve")
    try:
        yield child, child.line().strip()
    finally:
        child.end()


def serve() -> None:
    """Be that process: "slow SECONDS" and "heal" come in, each is answered when it is done."""
    with BlockingLocalCluster(brokers=BROKERS) as running:
        running.create_topic(TOPIC)
        print(running.name_server_addresses, flush=True)
        for line in sys.stdin:
            if line.startswith("slow "):
                for number in range(SLOW_ONES):
                    running.delay_sends(float(line.split()[1]), _EVERY_SEND, broker=number)
            else:
                running.heal()
            print("done", flush=True)


def measure(name: str, seconds: float) -> Sample:
    """Take one way for so many seconds, with brokers that have seen no other."""
    with senders(name) as (well, _, healthy), senders(name) as (child, producer, slow):
        for what in (f"slow {SLOW}", "heal"):  # what makes faults stands in front of their sends from now on, as there
            _tell(well, what)
        healthy.take_turn(min(2.0, seconds))
        slow.take_turn(min(2.0, seconds))
        _tell(child, f"slow {SLOW}")
        slow.take_turn(WARMING)
        for each in (healthy, slow):
            each.start_counting()
        before = producer.statistics().faults.probes
        turns = max(1, round(seconds / TURN))
        for _ in range(turns):
            healthy.take_turn(seconds / turns / 2)
            slow.take_turn(seconds / turns)
        probes = producer.statistics().faults.probes - before
        _tell(child, "heal")
        return Sample(name, healthy.rate, slow.rate, probes, healthy.failed + slow.failed)


@contextmanager
def senders(name: str) -> Iterator[tuple[Child, rocketpy.sync.Producer, Senders]]:
    """Senders of one way, and a cluster for them alone."""
    with cluster() as (child, namesrv):
        with rocketpy.sync.Producer("bench_slow", namesrv=namesrv, **WAYS[name]) as producer:
            made = Senders(producer)
            try:
                yield child, producer, made
            finally:
                made.end()


def _tell(child: Child, what: str) -> None:
    child.tell(what)
    child.line()


def table(samples: Sequence[Sample], seconds: float) -> str:
    """The samples side by side, for readers."""
    lines = [
        f"{SENDERS} threads for {seconds:g} s while {SLOW_ONES} of {BROKERS} brokers take {SLOW:g} s a message",
        f"{'fault strategy':<16}{'all well':>12}{'slow':>12}{'share':>9}{'probes':>9}{'failed':>9}   bar",
    ]
    for each in samples:
        bar = "" if each.name == "off" else f"at least {BAR}: {'reached' if each.share >= BAR else 'not reached'}"
        lines.append(
            f"{each.name:<16}{each.healthy:>10,.0f}/s{each.slow:>10,.0f}/s{each.share:>9.3f}{each.probes:>9}"
            f"{each.failed:>9}   {bar}".rstrip()
        )
    return "\n".join(lines)


def run(seconds: float = SECONDS) -> str:
    """Measure every way in turn; the table."""
    return table([measure(name, seconds) for name in WAYS], seconds)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="./dev bench slow-brokers", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each way (%(default)g)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.serve:
        serve()
        return 0
    try:
        print(run(options.seconds))
    except BenchmarkError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
