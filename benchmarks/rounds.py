"""Runs every measure once per round on each kind of servers, in turn, and keeps the results."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import raw
from benchmarks.bars import ALONE, APACHE, BARS, Bar
from benchmarks.budget import Budget
from benchmarks.frames import Wire, batch_body, send_frame
from benchmarks.measure import FILLED_TOPIC, QUEUES, SEND_TOPIC, Ground, Measure, Row, Size, task_of
from benchmarks.peers.work import works
from benchmarks.processes import cpu_seconds
from benchmarks.progress import Progress
from benchmarks.servers import OURS, Servers, Site
from benchmarks.task import BATCH, LARGE_BODY, Outcome
from benchmarks.trouble import BenchmarkError
from benchmarks.verdicts import Verdict, judge_all

if TYPE_CHECKING:
    from benchmarks.peers.peer import Peer, PeerMake
    from benchmarks.store.timeline import Timeline


@dataclass
class Results:
    """All samples of a run, in the order in which they were taken."""

    rows: tuple[Row, ...]
    makes: tuple[Servers, ...]
    missing: dict[str, str]
    """Servers and peers that are not available, by name, and why."""
    peers: tuple[PeerMake, ...] = ()
    samples: dict[tuple[str, str], list[Outcome]] = field(default_factory=dict)
    """Samples by row and servers."""
    failures: list[str] = field(default_factory=list)
    """Samples that failed, and why; the others count."""
    seconds: float = 0.0
    bars: tuple[Bar, ...] = BARS
    """The bars of the rows."""
    timelines: list[Timeline] = field(default_factory=list)
    """Latencies over time, for the plot."""
    date: str = field(default_factory=lambda: today())

    def add(self, row: str, make: str, outcome: Outcome) -> None:
        """Keep one sample."""
        self.samples.setdefault((row, make), []).append(outcome)

    def where(self) -> str:
        """The day, the machine and the interpreter, without which a figure says nothing."""
        return where(self.date)

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on the bars whose rows were in the run."""
        rows = {row.name for row in self.rows}
        return judge_all((bar for bar in self.bars if bar.figure.row in rows), self.samples, self.missing)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "date": self.date,
            "machine": machine(),
            "python": sys.version.split()[0],
            "seconds": round(self.seconds, 1),
            "servers": {make.name: make.title for make in self.makes},
            "peers": {make.name: make.title for make in self.peers},
            "missing": self.missing,
            "failures": self.failures,
            "figures": [
                {
                    **asdict(row),
                    "servers": make,
                    "median": median(outcome.value for outcome in outcomes),
                    "samples": [asdict(outcome) for outcome in outcomes],
                }
                for row in self.rows
                for (name, make), outcomes in self.samples.items()
                if name == row.name
            ],
            "bars": [verdict.to_json() for verdict in self.verdicts()],
        }


def today() -> str:
    """The date."""
    return datetime.now(UTC).date().isoformat()


def where(date: str | None = None) -> str:
    """The day, the machine and the interpreter of a run."""
    return f"{date or today()}, {machine()}, Python {sys.version.split()[0]}"


def processor() -> str:
    """Return the name of the processor, from the kernel."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "processor unknown")


def machine() -> str:
    """Return the servers on which it ran."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} x {processor()}"


@dataclass(frozen=True)
class Step:
    """One measure on one kind of servers, which each round takes."""

    measure: Measure
    make: Servers
    site: Site
    peer: Peer | None

    @property
    def servers(self) -> str:
        """Return the name under which its samples are kept."""
        if self.measure.brings is not None:
            return self.measure.brings.name
        return ALONE if self.measure.alone else self.make.name


def run(
    measures: Sequence[Measure],
    makes: Sequence[Servers],
    missing: dict[str, str],
    *,
    rounds: int,
    size: Size,
    peers: Sequence[PeerMake] = (),
) -> Results:
    """Measure every figure `rounds` times."""
    began = time.monotonic()
    rows = tuple(row for measure in measures for row in measure.rows)
    brought = {measure.brings for measure in measures if measure.brings is not None} - set(makes)
    results = Results(rows, (*brought, *makes), missing, tuple(peers))
    with ExitStack() as stack:
        sites = [(make, stack.enter_context(make.run())) for make in makes]
        for _, site in sites:
            prepare(site, size)
        for make, site in sites:
            for _ in range(make.warm_turns):
                warm_up(site, size)
        others = _peers(stack, peers, sites, size, results)
        steps = [step for measure in measures for step in _steps(measure, sites, others)]
        _take(steps, results, rounds, size)
    results.seconds = time.monotonic() - began
    return results


def _peers(
    stack: ExitStack, makes: Sequence[PeerMake], sites: Sequence[tuple[Servers, Site]], size: Size, results: Results
) -> dict[str, Peer]:
    """Start the peers and warm them up on Apache's servers. If one fails, the run goes on without it."""
    found = {}
    for servers, site in sites:
        for make in makes if servers.name == APACHE else ():
            try:
                peer = stack.enter_context(make.run())
                warm_up_peer(make, peer, Ground(servers, site, size, f"{os.getpid()}_warm"), results.rows)
                found[make.name] = peer
            except BenchmarkError as error:
                results.missing[make.name] = str(error)
    return found


def _take(steps: Sequence[Step], results: Results, rounds: int, size: Size) -> None:
    """Return the steps of all rounds, in turn; some are only in the first round."""
    often = [step for step in steps if not step.measure.once]
    progress = Progress(len(steps) + (rounds - 1) * len(often))
    for number in range(1, rounds + 1):
        for index, step in enumerate(steps if number == 1 else often):
            progress.step(number, rounds, f"{step.measure.rows[0].title} ({step.make.title})")
            rest(step.site)
            ground = Ground(step.make, step.site, size, f"{os.getpid()}_{number}_{index}", step.peer)
            try:
                for row, outcome in step.measure.take(ground).items():
                    results.add(row, step.servers, replace(outcome, round=number))
            except BenchmarkError as error:
                results.failures.append(f"round {number}, {step.measure.rows[0].title} ({step.make.title}): {error}")
    progress.end()


def _steps(measure: Measure, sites: Sequence[tuple[Servers, Site]], peers: Mapping[str, Peer]) -> Iterator[Step]:
    """Return one step per kind of servers, or one in all if none are needed; peers use only Apache's servers."""
    for make, site in sites[:1] if measure.alone or measure.brings else sites:
        if not measure.peer or (measure.peer in peers and make.name == APACHE):
            yield Step(measure, make, site, peers.get(measure.peer))


def prepare(site: Site, size: Size) -> None:
    """Create the topics, and fill the one that is consumed."""
    site.create_topic(SEND_TOPIC, QUEUES)
    site.create_topic(FILLED_TOPIC, QUEUES)
    with Wire(site.broker) as wire:
        for number, start in enumerate(range(0, size.filled, BATCH)):
            body = batch_body([LARGE_BODY] * min(BATCH, size.filled - start))
            wire.ask(send_frame(FILLED_TOPIC, number % QUEUES, body, batch=True))


def warm_up(site: Site, size: Size) -> None:
    """Drive servers in every way that is measured, so that the first round is like the others."""
    budget = Budget(size.warm_seconds / len(raw.SHAPES), size.budget.messages)
    for shape in raw.SHAPES:
        shape.measure(task_of(shape.name, Ground(OURS, site, Size(budget, size.filled), "warm")))


def warm_up_peer(make: PeerMake, peer: Peer, ground: Ground, rows: Sequence[Row]) -> None:
    """Let a peer do each of its measured tasks for a while, because just-in-time compilers need that."""
    size = replace(ground.size, budget=Budget(ground.size.warm_seconds, ground.size.budget.messages))
    names = {row.name for row in rows}
    for turn in range(make.warm_turns):
        for work in works():
            if work.row_of(make.name) in names and not work.fresh:
                work.take(replace(ground, size=size, peer=peer, run=f"{ground.run}_{turn}"))


def rest(site: Site, *, at_most: float = 1.0) -> None:
    """Wait until the broker has finished earlier work: it uses no tick of CPU for a moment."""
    deadline = time.monotonic() + at_most
    before = cpu_seconds(site.broker_pid)
    while before is not None and time.monotonic() < deadline:
        time.sleep(0.03)
        now = cpu_seconds(site.broker_pid)
        if now is None or now == before:
            return
        before = now
