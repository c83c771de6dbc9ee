"""What is measured: every figure by name, and the functions that take them, which the run calls in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import lifecycle, starting
from benchmarks.bars import BARS
from benchmarks.processes import Child
from benchmarks.task import Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError
from benchmarks.worker import carry_out, shapes

if TYPE_CHECKING:
    from benchmarks.budget import Budget
    from benchmarks.servers import Servers, Site

QUEUES = 4
SEND_TOPIC = "BenchSend"
FILLED_TOPIC = "BenchFilled"
WORKER_WITHIN = 120.0


@dataclass(frozen=True)
class Size:
    """How much is done for one figure.

    Attributes:
        budget: Of every worker.
        filled: Messages of 1 KiB that wait to be consumed.
        idle_seconds: How long idle servers are watched.
        warm_seconds: How long servers are driven before anything is measured; a JVM needs it.
        isolated: Whether workers are processes of their own; within this one they are faster to start.
    """

    budget: Budget
    filled: int = 40_000
    idle_seconds: float = 1.5
    warm_seconds: float = 2.0
    isolated: bool = True


@dataclass(frozen=True)
class Row:
    """One figure of the table: `floor` names the one it is divided by."""

    name: str
    title: str
    unit: str
    floor: str | None = None
    kind: str = "client"
    """Which table it stands in: "client" (and raw loops), "server" or "start"."""


@dataclass(frozen=True)
class Ground:
    """What a measure stands on: the make of the servers, the pair that is up, and a name that is used once."""

    make: Servers
    site: Site
    size: Size
    run: str


@dataclass(frozen=True)
class Measure:
    """Takes the figures of some rows together.

    Attributes:
        alone: Whether no servers of another make could give another figure.
    """

    rows: tuple[Row, ...]
    take: Callable[[Ground], Mapping[str, Outcome]]
    alone: bool = False


def task_of(shape: str, ground: Ground) -> Task:
    """What a worker is told."""
    site, size = ground.site, ground.size
    return Task(
        shape,
        site.namesrv,
        site.broker,
        SEND_TOPIC,
        FILLED_TOPIC,
        size.filled,
        QUEUES,
        ground.run,
        site.broker_pid,
        size.budget,
    )


def _worker(shape: Shape) -> Measure:
    def take(ground: Ground) -> Mapping[str, Outcome]:
        task = task_of(shape.name, ground)
        return {shape.name: _in_process(task) if ground.size.isolated else carry_out(task)}

    row = Row(shape.name, shape.title, shape.unit, shape.floor, "start" if shape.alone else "client")
    return Measure((row,), take, shape.alone)


def _in_process(task: Task) -> Outcome:
    child = Child("-m", "benchmarks.worker", json.dumps(task.to_json()))
    try:
        return Outcome(**json.loads(child.line(WORKER_WITHIN)))
    finally:
        child.kill()


def _start(surface: str) -> Measure:
    row = Row(f"start-{surface}", f"process start to first acknowledged send, {surface}", "ms", kind="client")
    return Measure((row,), lambda ground: {row.name: starting.first_send(surface, ground.site.namesrv, SEND_TOPIC)})


def _imports() -> Measure:
    rows = (
        Row("import-floor", "interpreter with trio and attrs imported", "ms", kind="start"),
        Row("import", "interpreter with rocketpy imported", "ms", "import-floor", kind="start"),
        Row("import-trio", "interpreter with rocketpy.Producer imported", "ms", "import-floor", kind="start"),
        Row("import-sync", "interpreter with rocketpy.sync.Producer imported", "ms", "import-floor", kind="start"),
    )
    return Measure(rows, lambda ground: starting.imports(), alone=True)


def _lifecycle() -> Measure:
    rows = (
        Row("cold", "both servers, cold, to first acknowledged send", "ms", kind="server"),
        Row("idle-rss", "idle broker, memory", "MB", kind="server"),
        Row("idle-cpu", "idle broker, share of a core", "%", kind="server"),
        Row("stop", "broker, SIGTERM to gone", "ms", kind="server"),
    )
    return Measure(rows, lambda ground: lifecycle.live_and_die(ground.make, ground.size.idle_seconds))


def measures(names: Iterable[str] = ()) -> list[Measure]:
    """Everything, or what `names` ask for with what it is divided by.

    Raises:
        BenchmarkError: one of the names is none.
    """
    every = [*map(_worker, shapes().values()), _start("trio"), _start("blocking"), _imports(), _lifecycle()]
    wanted = set(names)
    rows = {row.name: row for measure in every for row in measure.rows}
    unknown = wanted - rows.keys()
    if unknown:
        raise BenchmarkError(f"nothing is called {', '.join(sorted(unknown))}; there are: {', '.join(rows)}")
    wanted |= {floor for name in wanted if (floor := rows[name].floor) is not None}
    wanted |= {bar.over.row for bar in BARS if bar.over is not None and bar.figure.row in wanted}
    return [measure for measure in every if not wanted or any(row.name in wanted for row in measure.rows)]
