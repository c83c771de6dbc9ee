"""What statistics cost the way of a send: the same load with them and without, by turns.

``python -m benchmarks.statistics_cost [--seconds N]``, or ``./dev bench statistics``. With them, the producer and the
broker count, and both are scraped every second, as by Prometheus. Without them, the producer throws its numbers away,
the broker does not count what arrives, and nobody scrapes. Each way has a producer and a broker of its own, the broker
in a process; all are there at the same time, and take turns of seconds, so that a busy minute of the machine affects
both.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.request import urlopen

import prometheus_client
import trio

import rocketpy
from benchmarks.processes import Child
from benchmarks.task import BODY
from benchmarks.trouble import BenchmarkError
from rocketpy.client.meter import Cell
from rocketpy.prometheus import ClientCollector
from rocketpy_broker_sim import BlockingLocalCluster
from rocketpy_broker_sim.broker.subsystems.counting import Counting

NAME = "statistics"
"""On the command line of ``./dev bench``."""
SECONDS = 40.0
IN_FLIGHT = 64
TURN = 2.0
EVERY = 1.0
"""Seconds between two scrapes."""
BAR = 0.97
"""Share of the rate without statistics that is left with them."""
TOPIC = "Counted"
WITH, WITHOUT = "with", "without"


@dataclass
class Way:
    """A producer, and what it has sent.

    Attributes:
        producer: the producer.
        scraper: the process that fetches the metrics of its broker; None where nobody scrapes.
        rates: messages/s of each turn.
        cpu: seconds of processor time of this process for a message, in each turn.
    """

    producer: rocketpy.Producer
    scraper: Child | None
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    async def take_turn(self, seconds: float) -> None:
        """Send for so long, with many sends in flight."""
        sent, end = 0, trio.current_time() + seconds

        async def keep_sending() -> None:
            nonlocal sent
            while trio.current_time() < end:
                await self.producer.send(rocketpy.Message(TOPIC, BODY))
                sent += 1

        began, used = time.perf_counter(), time.process_time()
        with _scraping(self):
            async with trio.open_nursery() as nursery:
                for _ in range(IN_FLIGHT):
                    nursery.start_soon(keep_sending)
        self.rates.append(sent / (time.perf_counter() - began))
        self.cpu.append((time.process_time() - used) / sent)


@contextmanager
def _scraping(way: Way) -> Iterator[None]:
    """Scrape the producer and its broker every second: the one from a thread, as Prometheus' own server does."""
    scraper = way.scraper
    if scraper is None:
        yield
        return
    registry = prometheus_client.CollectorRegistry()
    registry.register(ClientCollector(way.producer))
    over = threading.Event()

    def scrape() -> None:
        pause = EVERY / 2
        while not over.wait(pause):
            scraper.tell("scrape")
            prometheus_client.generate_latest(registry)
            scraper.line()
            pause = EVERY

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[Way]:
    """One way, with a broker of its own."""
    child = Child("-m", "benchmarks.statistics_cost", "--serve", name)
    try:
        namesrv, metrics = child.line().split()
        async with rocketpy.Producer(f"bench_{name}", namesrv=namesrv) as producer:
            if name == WITHOUT:
                _forget_numbers(producer)
            if name == WITHOUT:
                yield Way(producer, None)
                return
            scraper = Child("-m", "benchmarks.statistics_cost", "--fetch", f"http://{metrics}/metrics")
            try:
                yield Way(producer, scraper)
            finally:
                scraper.end()
    finally:
        child.end()


def fetch(address: str) -> None:
    """Fetch metrics for each line of standard input."""
    for _ in sys.stdin:
        with urlopen(address) as answer:
            print(len(answer.read()), flush=True)


def _forget_numbers(producer: rocketpy.Producer) -> None:
    """Let a producer throw its numbers away: what is appended is gone, and nothing is ever added up."""
    meter = producer._core.meter

    def cell(topic: str, broker_name: str) -> Cell:
        made = Cell(0.0)
        made.ends = math.inf
        nowhere: Any = deque(maxlen=0)
        made.seconds = made.sizes = made.further = made.one_ways = nowhere
        return made

    meter.cell = cell  # type: ignore[method-assign]


def serve(name: str) -> None:
    """Be the broker of one way until standard input ends."""
    if name == WITHOUT:
        Counting.arrived = lambda self, arrival: None  # type: ignore[method-assign]
    with BlockingLocalCluster(metrics_port=0) as running:
        running.create_topic(TOPIC)
        print(running.name_server_addresses, running.metrics_addresses[0], flush=True)
        sys.stdin.read()


async def measure(seconds: float) -> tuple[Way, Way]:
    """Take both ways by turns, for so many seconds each; the first turn of each is for warming up."""
    async with opened(WITH) as counted, opened(WITHOUT) as uncounted:
        turns = max(2, round(seconds / TURN))
        for number in range(turns + 1):
            # Who comes first alternates: a machine that grows slower favours neither.
            for way in (counted, uncounted) if number % 2 else (uncounted, counted):
                await way.take_turn(seconds / turns)
        for way in (counted, uncounted):
            del way.rates[0], way.cpu[0]
        return counted, uncounted


def table(counted: Way, uncounted: Way) -> str:
    """What came of it, for readers."""
    pairs = list(zip(counted.rates, uncounted.rates, strict=True))
    share = median(mine / other for mine, other in pairs)
    lines = [
        f"{IN_FLIGHT} sends in flight on trio, {len(pairs)} turns of each way",
        f"{'statistics':<28}{'rate':>12}{'CPU a send':>14}",
    ]
    for name, way in (("with, scraped every second", counted), ("without", uncounted)):
        lines.append(f"{name:<28}{median(way.rates):>10,.0f}/s{median(way.cpu) * 1e6:>11.1f} µs")
    verdict = "reached" if share >= BAR else "not reached"
    return "\n".join([*lines, f"share of the rate {share:.3f}, at least {BAR}: {verdict}"])


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {NAME}", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each way (%(default)g)")
    parser.add_argument("--serve", choices=(WITH, WITHOUT), help=argparse.SUPPRESS)
    parser.add_argument("--fetch", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.fetch:
        fetch(options.fetch)
        return 0
    if options.serve:
        serve(options.serve)
        return 0
    try:
        print(table(*trio.run(measure, options.seconds)))
    except BenchmarkError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
