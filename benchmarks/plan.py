"""What is measured: every figure by name, and the functions that take them, which the run calls in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import commands, consuming, holding, isolated, lifecycle, producing, raw, starting, tailing
from benchmarks.bars import (
    BARS,
    CONSUMER_BARS,
    CONSUMER_ROUNDS,
    PEERS,
    PRODUCER_BARS,
    SURFACE_BARS,
    SURFACE_ROUNDS,
    Bar,
)
from benchmarks.measure import SEND_TOPIC, Ground, Measure, Row, task_of
from benchmarks.peers.work import works
from benchmarks.quickstart import RECORDS, quickstart
from benchmarks.trouble import BenchmarkError
from benchmarks.worker import shapes

if TYPE_CHECKING:
    from benchmarks.task import Outcome, Shape

SURFACES = "surfaces"
"""On the command line, for every row that the bars of sending from trio, threads and asyncio speak of."""
CONSUMER = "consumer"
"""The same for those of consuming what waits."""
PRODUCER = "producer"
"""The same for those of what else producers do."""
GROUPS: Mapping[str, tuple[Bar, ...]] = {
    SURFACES: SURFACE_BARS,
    CONSUMER: CONSUMER_BARS,
    PRODUCER: PRODUCER_BARS,
}
WAITING = 700_000
"""Messages of 1 KiB that wait for each row of the group `CONSUMER`: enough for several seconds of consuming."""
HELD = Measure((holding.ROW,), holding.measure)
ROUNDS = 3
START_TURNS = 3


def _worker(shape: Shape) -> Measure:
    def take(ground: Ground) -> Mapping[str, Outcome]:
        return {shape.name: isolated.take(task_of(shape.name, ground), ground)}

    row = Row(shape.name, shape.title, shape.unit, shape.floor, "start" if shape.alone else "client")
    return Measure((row,), take, shape.alone, of_tree=shape not in raw.SHAPES)


def _start(surface: str) -> Measure:
    row = Row(f"start-{surface}", f"process start to first acknowledged send, {surface}", "ms", kind="client")

    def take(ground: Ground) -> Mapping[str, Outcome]:
        return {row.name: starting.first_send(surface, ground.site.namesrv, SEND_TOPIC, ground.tree)}

    return Measure((row,), take, of_tree=True, turns=START_TURNS)


def _imports() -> Iterator[Measure]:
    """One by one: another tree may lack some."""
    for name, what in starting.IMPORTED.items():
        floor = None if name == starting.FLOOR else starting.FLOOR
        row = Row(name, f"interpreter with {what} imported", "ms", floor, kind="start")
        take = partial(_imported, name)
        yield Measure((row,), take, alone=True, of_tree=floor is not None, turns=START_TURNS)


def _imported(name: str, ground: Ground) -> Mapping[str, Outcome]:
    return {name: starting.imported(name, ground.tree)}


def _quickstart() -> Measure:
    row = Row("quickstart", "quickstart, from its start to its end", "ms", kind="start")

    def take(ground: Ground) -> Mapping[str, Outcome]:
        return {row.name: quickstart(min(RECORDS, ground.size.budget.messages), ground.tree)}

    return Measure((row,), take, alone=True, of_tree=True)


def _lifecycle() -> Measure:
    rows = (
        Row("cold", "both servers, cold, to first acknowledged send", "ms", kind="server"),
        Row("idle-rss", "idle broker, memory", "MB", kind="server"),
        Row("idle-cpu", "idle broker, share of a core", "%", kind="server"),
        Row("stop", "broker, SIGTERM to gone", "ms", kind="server"),
    )
    return Measure(rows, lambda ground: lifecycle.live_and_die(ground.make, ground.size.idle_seconds))


def _everything() -> Iterator[Measure]:
    """All measures, peers after the last of ours that does the same work."""
    after: dict[str, list[Measure]] = {}
    for work in works():
        after.setdefault(work.ours, []).extend(work.measures())
    ours = [
        *map(_worker, (shape for shape in shapes().values() if not shape.long)),
        _start("trio"),
        _start("blocking"),
        _start("asyncio"),
        *_imports(),
        _quickstart(),
        _lifecycle(),
        HELD,
        Measure(commands.ROWS, commands.measure, of_tree=True),
        Measure(tailing.ROWS, tailing.measure, of_tree=True),
    ]
    for measure in ours:
        yield measure
        yield from after.get(measure.rows[0].name, ())


def measures(names: Iterable[str] = ()) -> list[Measure]:
    """Everything that is not `producing`, or what `names` ask for with what it is divided by.

    Raises:
        BenchmarkError: one of the names is none.
    """
    every = [*_everything(), *producing.MEASURES]
    wanted = set(names)
    if CONSUMER in wanted:
        every += [consuming.FILTERED]
        if not wants_ours(wanted):
            every[every.index(HELD)] = consuming.HELD
    rows = {row.name: row for measure in every for row in measure.rows}
    unknown = wanted - rows.keys() - GROUPS.keys()
    if unknown:
        raise BenchmarkError(
            f"nothing is called {', '.join(sorted(unknown))}; there are: {', '.join([*rows, *GROUPS])}"
        )
    for group in wanted & GROUPS.keys():
        wanted |= _of_group(group) & rows.keys()
    wanted -= GROUPS.keys()
    wanted |= {floor for name in wanted if (floor := rows[name].floor) is not None}
    wanted |= {bar.over.row for bar in BARS if bar.over is not None and bar.figure.row in wanted}
    if not wanted:
        return [measure for measure in every if measure not in producing.MEASURES]
    return [measure for measure in every if any(row.name in wanted for row in measure.rows)]


def of_trees(names: Iterable[str], *, also: str) -> list[Measure]:
    """Everything that another tree can be compared by, or what `names` ask for.

    Args:
        names: Of rows, or of `GROUPS`.
        also: One more name to tell of, where one of the names is none.

    Raises:
        BenchmarkError: one of the names is none of these.
    """
    every = [measure for measure in _everything() if measure.of_tree]
    rows = {row.name: measure for measure in every for row in measure.rows}
    wanted = set(names)
    for group in wanted & GROUPS.keys():
        wanted = (wanted - {group}) | {bar.figure.row for bar in GROUPS[group]} & rows.keys()
    unknown = wanted - rows.keys()
    if unknown:
        known = ", ".join([*rows, *GROUPS, also])
        raise BenchmarkError(f"no two trees can be compared by {', '.join(sorted(unknown))}; they can by: {known}")
    return [measure for measure in every if not wanted or any(rows.get(name) is measure for name in wanted)]


def _of_group(group: str) -> set[str]:
    """Our rows, and those of every peer that does the same work."""
    ours = {bar.figure.row for bar in GROUPS[group]}
    return ours | {work.row_of(name) for work in works() for name in PEERS if work.ours in ours}


def rounds_for(names: Iterable[str]) -> int:
    """How many are taken where nobody says."""
    wanted = set(names)
    asked = {SURFACES: SURFACE_ROUNDS, CONSUMER: CONSUMER_ROUNDS, PRODUCER: SURFACE_ROUNDS}
    return max((rounds for group, rounds in asked.items() if group in wanted), default=ROUNDS)


def wants_ours(names: Iterable[str]) -> bool:
    """Whether anything is measured on our servers too: the bars of most groups stand on Apache's alone."""
    wanted = set(names)
    return not wanted or not wanted <= GROUPS.keys() - {PRODUCER}


def waiting_for(names: Iterable[str], usual: int) -> int:
    """How many messages of 1 KiB wait to be consumed."""
    return WAITING if CONSUMER in set(names) else usual
