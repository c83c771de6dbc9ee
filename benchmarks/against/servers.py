"""The servers of two trees: the same raw loops drive them in turn, and every sample has new servers of each tree.

No client is involved, so any difference comes from the servers. CPU time is that of the broker. Starting, idling and
stopping are measured with servers that are started only for that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.against.comparison import HERE, THERE
from benchmarks.against.run import Comparison, order
from benchmarks.measure import Ground, Measure, Size
from benchmarks.plan import measures as all_measures
from benchmarks.progress import Progress
from benchmarks.rounds import prepare, rest, warm_up
from benchmarks.servers import OURS, ours
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.servers import Site
    from benchmarks.task import Outcome

NAME = "servers"
LOOPS = ("raw-one", "raw-64", "raw-batch", "raw-pull", "raw-latency")
LIFE = "idle-rss"


def measures() -> list[Measure]:
    """The measures by which servers are compared: raw loops, and their start, idling and stop."""
    wanted = {*LOOPS, LIFE}
    return [each for each in all_measures(wanted) if wanted & {row.name for row in each.rows}]


def names() -> set[str]:
    """Return the names of all rows, and the name for all of them together."""
    return {NAME} | {row.name for measure in measures() for row in measure.rows}


def chosen(wanted: set[str]) -> list[Measure]:
    """Return the measures that give the selected rows; all of them if `NAME` is selected."""
    return [each for each in measures() if NAME in wanted or wanted & {row.name for row in each.rows}]


def run(found: Comparison, wanted: set[str], size: Size) -> None:
    """Measure the selected rows of both trees in every round.

    Args:
        found: Gets the samples.
        wanted: Rows, or `NAME` for all of them.
        size: The size of each sample.
    """
    began = time.monotonic()
    found.servers.append(f"{OURS.title} of each tree")
    steps = chosen(wanted)
    for measure in steps:
        found.rows += [replace(row, kind="server") for row in measure.rows]
    progress = Progress(2 * found.rounds * len(steps))
    for number in range(1, found.rounds + 1):
        for index, measure in enumerate(steps):
            # Each sample has new processes. One can be 10 % faster than the next for all of its life, and one that has
            # sent more in one loop has more to write to the disk during the next one.
            with _pairs(found, size) as grounds:
                _take(found, grounds, measure, number, index, progress)
    progress.end()
    found.seconds += time.monotonic() - began


@contextmanager
def _pairs(found: Comparison, size: Size) -> Iterator[dict[str, Ground]]:
    """Start the servers of each tree, fill their topics, and warm them up."""
    with ExitStack() as stack:
        grounds = {}
        for side in (HERE, THERE):
            make = ours(found.trees[side].path)
            site = stack.enter_context(make.run())
            prepare(site, size)
            warm_up(site, size)
            grounds[side] = Ground(make, site, size, "")
        yield grounds


def _take(
    found: Comparison, grounds: Mapping[str, Ground], measure: Measure, number: int, index: int, progress: Progress
) -> None:
    """Keep one sample of each side, or the reason why there is none."""
    try:
        taken = _both(found, grounds, measure, number, index, progress)
    except BenchmarkError as error:
        found.failures.append(f"round {number}, {measure.rows[0].title}: {error}")
        return
    for side, outcomes in taken.items():
        for name, outcome in outcomes.items():
            found.add(name, side, replace(outcome, cpu=outcome.server_cpu, notes={}), number)


def _both(
    found: Comparison, grounds: Mapping[str, Ground], measure: Measure, number: int, index: int, progress: Progress
) -> dict[str, Mapping[str, Outcome]]:
    """Take one sample of each side."""
    taken = {}
    for side in order(number, index):
        progress.step(number, found.rounds, f"{measure.rows[0].title} ({found.trees[side].title})")
        _rest(ground.site for ground in grounds.values())
        name = f"{os.getpid()}_{number}_{index}_{side}"
        try:
            taken[side] = measure.take(replace(grounds[side], run=name))
        except BenchmarkError as error:
            raise BenchmarkError(f"{found.trees[side].title}: {error}") from error
    return taken


def _rest(sites: Iterable[Site]) -> None:
    """Wait until the servers are idle, so that neither side pays for work of the other."""
    for site in sites:
        rest(site)
