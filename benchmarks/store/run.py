"""The run over the measures of the store: each so often a round; when one fails, the others go on."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.bars import APACHE
from benchmarks.rounds import Results
from benchmarks.servers import OURS, apache_title
from benchmarks.store.bars import STORE_BARS
from benchmarks.store.measure import Bench, Scale, StoreMeasure
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from tests.interop.apache import Apache


class Teller:
    """Says what runs: over and over on one line of a terminal, a line a measure elsewhere."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._head = ""

    def step(self, name: str) -> None:
        """The next measure begins."""
        self._done += 1
        self._head = f"[{self._done}/{self._steps}] {time.monotonic() - self._began:4.0f} s  {name}"
        self._print(self._head)

    def say(self, word: str) -> None:
        """How far the measure is; for terminals alone."""
        if self._terminal:
            self._print(f"{self._head}: {word}")

    def end(self) -> None:
        """Nothing more to say."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _print(self, text: str) -> None:
        start, end = ("\r\x1b[K", "") if self._terminal else ("", "\n")
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


def run(
    measures: Sequence[StoreMeasure],
    apache: Apache | None,
    missing: dict[str, str],
    *,
    rounds: int,
    scale: Scale,
) -> Results:
    """Take every measure as often as it wants in each round."""
    began = time.monotonic()
    rows = tuple(row for measure in measures for row in measure.rows)
    makes = (OURS,) if apache is None else (OURS, replace(OURS, name=APACHE, title=apache_title(apache)))
    results = Results(rows, makes, missing, bars=STORE_BARS)
    steps = [measure for _ in range(rounds) for measure in measures for _ in range(measure.turns)]
    teller = Teller(len(steps))
    bench = Bench(scale, apache, teller.say, results.timelines.append)
    for measure in steps:
        teller.step(measure.name)
        try:
            for row, servers, outcome in measure.take(bench):
                results.add(row, servers, outcome)
        except BenchmarkError as error:
            results.failures.append(f"{measure.name}: {error}")
    teller.end()
    results.seconds = time.monotonic() - began
    return results
