"""`./dev mutants`: a sample of small changes to the library, and which of them the tests notice."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tools.ending import raised
from tools.mutants import report
from tools.mutants.arguments import options_of
from tools.mutants.covering import Covering, covering_of
from tools.mutants.job import Ended, Job, Verdict
from tools.mutants.operators import Mutant
from tools.mutants.sample import Sources
from tools.mutants.trees import files_of

CONSOLE = Console(highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; 1 where one survived."""
    options = options_of(arguments)
    sources = Sources(options.tree, options.packages)
    mutants = asked_for(options, sources)
    if not mutants:
        CONSOLE.print("there is no mutant to try", markup=False)
        return 0
    if options.list:
        for mutant in mutants:
            CONSOLE.print(mutant.name, markup=False)
        return 0
    with raised(signal.SIGINT, signal.SIGTERM):
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
    names = [earlier.name for earlier in options.again if not (options.survivors and earlier.killed)]
    if options.only:
        names = [name for name in names if name.startswith(tuple(f"{package}/" for package in options.only))]
    mutants = sources.named(names)
    for name in (name for name, mutant in zip(names, mutants, strict=True) if mutant is None):
        CONSOLE.print(f"no longer there: {name}", markup=False)
    if names and not any(mutants):
        CONSOLE.print("this tree has none of these mutants; its code is another by now")
        raise SystemExit(2)
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
        """Let the jobs take the mutants one by one; an interruption, or the failure of one job, ends all at once."""
        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        options = self._options
        number = min(options.jobs, len(self._mutants))
        jobs = [Job(self._sources, self._covering, options.marks, options.budget) for _ in range(number)]
        with Progress(*columns, console=CONSOLE) as progress, ThreadPoolExecutor(number) as pool:
            bar = progress.add_task("collecting the tests", total=len(self._mutants))
            workers = [pool.submit(self._work, job, progress, bar) for job in jobs]
            try:
                for worker in as_completed(workers):
                    worker.result()
            finally:
                self._waiting.clear()
                for job in jobs:
                    job.end()
        return self.verdicts

    def _work(self, job: Job, progress: Progress, bar: TaskID) -> None:
        with suppress(Ended), job.open(self._options.tree, self._files):
            while (mutant := self._next()) is not None:
                verdict = job.try_(mutant)
                with self._one_at_a_time:
                    self._note(verdict)
                    noticed = sum(each.state in report.KILLED for each in self.verdicts)
                    missed = len(self.verdicts) - noticed
                    progress.update(bar, advance=1, description=f"{noticed} killed, {missed} not killed")

    def _next(self) -> Mutant | None:
        with self._one_at_a_time:
            return self._waiting.pop() if self._waiting else None

    def _note(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if self._options.json:
            report.write(self._options.json, self._options.seed, self._sources, self._mutants, self.verdicts)


if __name__ == "__main__":
    raise SystemExit(main())
