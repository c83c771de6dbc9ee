"""``./dev bench --against REV [NAME...]``: reads the command line and carries it out."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import plan
from benchmarks.against import servers, spark
from benchmarks.against.comparison import HERE, THERE
from benchmarks.against.interval import LEVEL, least_count
from benchmarks.against.printing import ROUNDS, render
from benchmarks.against.run import Comparison, run
from benchmarks.against.trees import check_imports, checked_out, this_tree
from benchmarks.budget import Budget
from benchmarks.measure import Measure, Row, Size
from benchmarks.rounds import where
from benchmarks.servers import OURS, apache
from benchmarks.spark import plan as spark_plan
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    import argparse

    from benchmarks.servers import Servers

SPARK_ROWS = 300_000


@dataclass(frozen=True)
class Chosen:
    """What the command line selects. Servers and Spark are compared only if named.

    Attributes:
        clients: Measures that are taken on servers which both trees share.
        servers: Rows that are taken on servers of each tree.
        spark: Whether the sink is compared.
    """

    clients: list[Measure]
    servers: set[str]
    spark: bool

    def rows(self) -> list[Row]:
        """Return everything that is selected."""
        found = [row for measure in self.clients for row in measure.rows]
        for measure in servers.chosen(self.servers):
            found += measure.rows
        return found + (spark.SENDING if self.spark else [])


def chosen(names: Sequence[str]) -> Chosen:
    """Return what the names select.

    Raises:
        BenchmarkError: a name is unknown, or is that of something that cannot differ between trees.
    """
    of_spark = {spark_plan.NAME, *(row.name for row in spark.SENDING)}
    of_servers = servers.names()
    others = [name for name in names if name not in of_spark | of_servers]
    also = f"{servers.NAME}, {spark_plan.NAME}"
    clients = plan.of_trees(others, also=also) if others or not names else []
    return Chosen(clients, of_servers.intersection(names), not of_spark.isdisjoint(names))


def rounds_of(asked: int | None) -> int:
    """Return the number of rounds.

    Raises:
        BenchmarkError: there are too few rounds for any result.
    """
    if asked is None:
        return ROUNDS
    if asked < least_count():
        raise BenchmarkError(
            f"{asked} rounds have no interval of {100 * LEVEL:.0f} %: "
            f"it takes {least_count()}, and {ROUNDS} are a measurement"
        )
    if asked < ROUNDS:
        print(f"bench: fewer than {ROUNDS} rounds are a first look and no verdict", file=sys.stderr)
    return asked


def main(options: argparse.Namespace) -> int:
    """Compare this tree with the commit, and print the results.

    Raises:
        BenchmarkError: the comparison is not possible; the text says why.
    """
    if options.plot:
        raise BenchmarkError("there is no picture of a comparison: leave --plot out, --json writes every ratio")
    wanted = chosen(options.names)
    if options.list:
        print("\n".join(f"{row.name:<18} {row.title}" for row in wanted.rows()))
        return 0
    rounds = rounds_of(options.rounds)
    here = this_tree(dirty=options.dirty)
    with ended_by_sigterm(), checked_out(options.against) as there:
        found = Comparison({HERE: here, THERE: there}, rounds)
        for tree in (here, there):
            check_imports(tree)
        size = Size(Budget(options.seconds, 10**9))
        if wanted.clients:
            run(found, wanted.clients, shared_servers(ours_only=options.ours_only), size)
        if wanted.servers:
            servers.run(found, wanted.servers, size)
        if wanted.spark:
            spark.run(found, max(1, options.rows or SPARK_ROWS))
    return publish(found, options)


def shared_servers(*, ours_only: bool) -> Servers:
    """Return Apache's servers if they are available, otherwise ours."""
    beside = OURS if ours_only else apache()
    if isinstance(beside, str):
        print(f"bench: on our own servers, because {beside}", file=sys.stderr)
        return OURS
    return beside


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that servers and the other tree are removed."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def publish(found: Comparison, options: argparse.Namespace) -> int:
    """Print the results of a run, and write the files that the command line names."""
    print(f"{where()}\n\n{render(found)}")
    if options.json:
        options.json.write_text(json.dumps({"where": where(), **found.to_json()}, indent=1), "utf-8")
    for failure in found.failures:
        print(f"\nbench: not measured: {failure}", file=sys.stderr)
    return 1 if found.failures else 0
