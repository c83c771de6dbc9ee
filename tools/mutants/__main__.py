"""`./dev mutants`: a sample of small changes to the library, and which of them the tests notice."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tools.mutants import report
from tools.mutants.covering import Covering, covering_of
from tools.mutants.job import Job, Verdict
from tools.mutants.operators import Mutant
from tools.mutants.sample import PACKAGES, Sources
from tools.mutants.trees import files_of

CONSOLE = Console(highlight=False, soft_wrap=True)


def parser() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    parser = argparse.ArgumentParser(prog="./dev mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which sample; the same code gives the same one (1)")
    parser.add_argument("--count", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there, after each mutant")
    parser.add_argument("--only", action="append", default=[], metavar="PACKAGE", help="mutants of this package alone")
    parser.add_argument("--again", type=Path, metavar="FILE", help="the mutants of such a file in place of a sample")
    parser.add_argument("--survivors", action="store_true", help="with --again: only those that were not killed")
    parser.add_argument("--list", action="store_true", help="name the mutants and try none")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for one mutant (60)")
    parser.add_argument("--tree", type=Path, default=Path.cwd(), help="the tree to change a copy of (this one)")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help=argparse.SUPPRESS)
    parser.add_argument("--marks", default="", help="which tests: pytest's -m (dev gives the quick ones)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; 1 where one survived."""
    options = parser().parse_args(arguments)
    sources = Sources(options.tree, options.packages)
    mutants = asked_for(options, sources)
    if options.list:
        for mutant in mutants:
            CONSOLE.print(mutant.name, markup=False)
        return 0
    covering = covering_of(options.tree, options.marks, options.packages)
    covering.read_imports((source.path, source.tree) for source in sources.files.values())
    if covering.failed:
        CONSOLE.print(f"{len(covering.failed)} tests did not pass without a change and are left out", markup=False)
    verdicts = Trying(options, sources, covering, mutants).run()
    report.show(CONSOLE, sources, mutants, verdicts)
    return 1 if any(verdict.state not in report.KILLED for verdict in verdicts) else 0


def asked_for(options: argparse.Namespace, sources: Sources) -> list[Mutant]:
    """Return the mutants to try."""
    if options.again is None:
        return sources.chosen(options.seed, options.count, options.only)
    rows = json.loads(options.again.read_text("utf-8"))["mutants"]
    names = [row["name"] for row in rows if not (options.survivors and row["state"] in report.KILLED)]
    mutants = sources.named(names)
    for name in (name for name, mutant in zip(names, mutants, strict=True) if mutant is None):
        CONSOLE.print(f"no longer there: {name}", markup=False)
    return [mutant for mutant in mutants if mutant is not None]


class Trying:
    """The mutants that wait, and the verdicts on the others."""

    def __init__(
        self, options: argparse.Namespace, sources: Sources, covering: Covering, mutants: Sequence[Mutant]
    ) -> None:
        self._options, self._sources, self._covering, self._mutants = options, sources, covering, mutants
        self._waiting = list(reversed(mutants))
        self._one_at_a_time = threading.Lock()
        self._files = files_of(options.tree)
        self.verdicts: list[Verdict] = []

    def run(self) -> list[Verdict]:
        """Let the jobs take the mutants one by one; an interruption ends each after the one that it has."""
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        jobs = min(self._options.jobs, len(self._mutants)) or 1
        with Progress(*columns, console=CONSOLE) as progress, ThreadPoolExecutor(jobs) as pool:
            bar = progress.add_task("collecting the tests", total=len(self._mutants))
            workers = [pool.submit(self._work, progress, bar) for _ in range(jobs)]
            try:
                for worker in workers:
                    worker.result()
            finally:
                self._waiting.clear()
        return self.verdicts

    def _work(self, progress: Progress, bar: TaskID) -> None:
        options = self._options
        job = Job(self._sources, self._covering, options.marks, options.budget)
        with job.open(options.tree, self._files), suppress(IndexError):
            while True:
                verdict = job.try_(self._waiting.pop())
                with self._one_at_a_time:
                    self._note(verdict)
                    noticed = sum(each.state in report.KILLED for each in self.verdicts)
                    missed = len(self.verdicts) - noticed
                    progress.update(bar, advance=1, description=f"{noticed} killed, {missed} not")

    def _note(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if self._options.json:
            report.write(self._options.json, self._options.seed, self._sources, self._mutants, self.verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
