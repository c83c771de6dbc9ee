"""Runs every measure once per round on both trees, one right after the other, on the same servers."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from benchmarks.against.comparison import HERE, THERE, Compared, compared
from benchmarks.budget import Budget
from benchmarks.measure import Ground
from benchmarks.progress import Progress
from benchmarks.rounds import prepare, rest, warm_up
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.against.trees import Tree
    from benchmarks.measure import Measure, Row, Size
    from benchmarks.servers import Servers, Site
    from benchmarks.task import Outcome

PROBE_SECONDS = 0.1


@dataclass
class Comparison:
    """All samples of a run.

    Attributes:
        trees: The tree of each side.
        rounds: The requested number of rounds.
        servers: The servers that both sides used, as text for readers.
        samples: Samples by row and side.
        left_out: Rows that one side cannot measure, and why.
        failures: Rounds in which a row could not be measured, and why; they count for neither side.
    """

    trees: dict[str, Tree]
    rounds: int
    rows: list[Row] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    samples: dict[tuple[str, str], list[Outcome]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, row: str, side: str, outcome: Outcome, number: int) -> None:
        """Keep one sample."""
        self.samples.setdefault((row, side), []).append(replace(outcome, round=number))

    def compared(self) -> list[Compared]:
        """Return the results of each figure."""
        return list(compared(self.rows, self.samples))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "commits": {side: tree.commit for side, tree in self.trees.items()},
            "titles": {side: tree.title for side, tree in self.trees.items()},
            "rounds": self.rounds,
            "servers": self.servers,
            "seconds": round(self.seconds, 1),
            "left_out": self.left_out,
            "failures": self.failures,
            "figures": [each.to_json() for each in self.compared()],
        }


def order(number: int, index: int) -> tuple[str, str]:
    """Return the sides in order; which one begins alternates from round to round, and from measure to measure."""
    return (HERE, THERE) if (number + index) % 2 else (THERE, HERE)


def run(found: Comparison, measures: Sequence[Measure], make: Servers, size: Size) -> None:
    """Measure every figure of both trees in every round."""
    began = time.monotonic()
    found.servers.append(make.title)
    with make.run() as site:
        prepare(site, size)
        for _ in range(make.warm_turns):
            warm_up(site, size)
        _Rounds(found, measures, make, site, size).take()
    found.seconds += time.monotonic() - began


class _Rounds:
    """Run the rounds on servers that are running."""

    def __init__(self, found: Comparison, measures: Sequence[Measure], make: Servers, site: Site, size: Size) -> None:
        self._found = found
        self._measures = measures
        self._ground = Ground(make, site, size, "")
        self._progress = Progress(2 * len(measures))
        self._runs = itertools.count(1)

    def take(self) -> None:
        able = [measure for index, measure in enumerate(self._measures) if self._probe(index, measure)]
        self._found.rows += [row for measure in able for row in measure.rows]
        self._progress = Progress(2 * self._found.rounds * sum(measure.turns for measure in able))
        for number in range(1, self._found.rounds + 1):
            for index, measure in enumerate(able):
                self._pair(number, index, measure)
        self._progress.end()

    def _probe(self, index: int, measure: Measure) -> bool:
        """Return whether both trees can do the measure. This also compiles its modules and reads its files once."""
        size = replace(self._ground.size, budget=Budget(PROBE_SECONDS, self._ground.size.budget.messages))
        for side in (HERE, THERE):
            try:
                self._one(0, index, measure, side, size)
            except BenchmarkError as error:
                if side == HERE:
                    self._found.failures.append(f"{measure.rows[0].title}: {error}")
                reason = f"{self._found.trees[side].title} cannot do it ({last_line(str(error))})"
                self._found.left_out |= dict.fromkeys((row.name for row in measure.rows), reason)
                return False
        return True

    def _pair(self, number: int, index: int, measure: Measure) -> None:
        try:
            taken = self._both(number, index, measure)
        except BenchmarkError as error:
            self._found.failures.append(f"round {number}, {measure.rows[0].title}: {error}")
            return
        for side, outcomes in taken.items():
            for row in measure.rows:
                self._found.add(row.name, side, middle([each[row.name] for each in outcomes]), number)

    def _both(self, number: int, index: int, measure: Measure) -> dict[str, list[Mapping[str, Outcome]]]:
        """Take samples as often as the measure requires, one of each side per turn."""
        taken: dict[str, list[Mapping[str, Outcome]]] = {HERE: [], THERE: []}
        for turn in range(measure.turns):
            for side in order(number + turn, index):
                taken[side].append(self._one(number, index, measure, side, self._ground.size))
        return taken

    def _one(self, number: int, index: int, measure: Measure, side: str, size: Size) -> Mapping[str, Outcome]:
        tree = self._found.trees[side]
        title = f"{measure.rows[0].title} ({tree.title})"
        self._progress.step(number, self._found.rounds, title)
        rest(self._ground.site)
        name = f"{os.getpid()}_{next(self._runs)}"
        try:
            return measure.take(replace(self._ground, size=size, run=name, tree=tree.path))
        except BenchmarkError as error:
            raise BenchmarkError(f"{tree.title}: {error}") from error


def middle(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the sample whose figure is the median."""
    return sorted(outcomes, key=lambda each: each.value)[len(outcomes) // 2]


def last_line(text: str) -> str:
    """Return the line of a traceback that has the error."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it does not say why")
