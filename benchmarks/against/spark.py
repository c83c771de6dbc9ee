"""Compares the Spark sinks of two trees: one session of each, which take turns on the same servers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.against.comparison import HERE, THERE
from benchmarks.against.run import Comparison, last_line, order
from benchmarks.measure import QUEUES
from benchmarks.progress import Progress
from benchmarks.rounds import rest
from benchmarks.servers import OURS, Site
from benchmarks.spark.input import TOPIC
from benchmarks.spark.plan import ROWS
from benchmarks.spark.run import driver, take
from benchmarks.spark.usage import WORKERS
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.processes import Child

LOOPS = ("df-sink", "rdd-sink")
OF_SINK = (f"{WORKERS}_MB",)
"""The sink runs in the workers; the JVM and the driver do not run code of this project."""
SENDING = [row for row in ROWS if row.name.removeprefix("spark-") in LOOPS]


def run(found: Comparison, rows: int) -> None:
    """Measure both loops of both trees in every round. The first failure ends the run, because others would fail too.

    Args:
        found: Gets the samples.
        rows: The number of rows of each loop.
    """
    began = time.monotonic()
    found.servers.append(f"{OURS.title} (Spark)")
    progress = Progress(2 + len(LOOPS) * 2 * found.rounds)
    with ExitStack() as stack:
        sessions = {}
        for side in (HERE, THERE):
            progress.step(0, found.rounds, f"Spark starts and warms up ({found.trees[side].title})")
            try:
                sessions[side] = stack.enter_context(driver(rows, found.trees[side].path))
            except BenchmarkError as error:
                reason = f"Spark does not run with {found.trees[side].title}: {last_line(str(error))}"
                found.left_out |= dict.fromkeys((row.name for row in SENDING), reason)
                progress.end()
                return
        found.rows += SENDING
        try:
            for number in range(1, found.rounds + 1):
                with OURS.run() as site:
                    _round(found, sessions, site, rows, number, progress)
        except BenchmarkError as error:
            found.failures.append(str(error))
    progress.end()
    found.seconds += time.monotonic() - began


def _round(
    found: Comparison, sessions: dict[str, Child], site: Site, rows: int, number: int, progress: Progress
) -> None:
    site.create_topic(TOPIC, QUEUES)
    for index, loop in enumerate(LOOPS):
        for side in order(number, index):
            progress.step(number, found.rounds, f"{loop} ({found.trees[side].title})")
            rest(site)
            outcome = take(sessions[side], site, loop, rows)
            notes = {name: value for name, value in outcome.notes.items() if name in OF_SINK}
            found.add(f"spark-{loop}", side, replace(outcome, notes=notes), number)
