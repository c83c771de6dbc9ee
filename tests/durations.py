"""Where the time of a run goes, by folder and by file: `./dev test --durations`.

A plugin of pytest. Seconds are those of set-up, test and clean-up together, of all workers; side by side they come to
more than the clock on the wall says. Processor seconds are those of the worker and of the processes whose end it has
seen, such as servers: a test that has many seconds and few of these waits, or has waited for its turn.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Generator
from pathlib import PurePosixPath

import pytest
from rich.console import Console
from rich.table import Table

__all__ = ["Durations", "ProcessorTime"]

_MOST_FILES = 40
_PROCESSOR = "processor_seconds"


class ProcessorTime:
    """Notes in every report how much processor time there was since the one before; has to be where tests run."""

    def __init__(self) -> None:
        self._before = _spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add it to the report of one phase."""
        report = yield
        now = _spent()
        report.__dict__[_PROCESSOR] = now - self._before
        self._before = now
        return report


def _spent() -> float:
    return sum(os.times()[:4])


class Durations:
    """Seconds and tests of each file."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.processor: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of a test."""
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        self.processor[file] += getattr(report, _PROCESSOR, 0.0)
        self.tests[file] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print both tables."""
        folders = Durations()
        for file, seconds in self.seconds.items():
            folder = "/".join(PurePosixPath(file).parts[:2]) if file.count("/") > 1 else "tests"
            folders.seconds[folder] += seconds
            folders.processor[folder] += self.processor[file]
            folders.tests[folder] += self.tests[file]
        terminalreporter.section("where the time goes")
        console = Console(file=terminalreporter._tw._file, width=shutil.get_terminal_size((120, 24)).columns)
        console.print(folders.table("folder"))
        console.print(self.table("file", most=_MOST_FILES))

    def table(self, what: str, *, most: int | None = None) -> Table:
        """The longest first; those beyond `most` in one line."""
        made = Table(what, "tests", "seconds", "of all", "processor", "of all", box=None, header_style="bold")
        for column in made.columns[1:]:
            column.justify = "right"
        rows = [(name, self.tests[name], seconds, self.processor[name]) for name, seconds in self.seconds.most_common()]
        shown, rest = rows[:most], rows[most:] if most else []
        if rest:
            shown.append((f"{len(rest)} more", *_sums(rest)))
        sums = _sums(rows)
        for name, tests, *both in [*shown, ("all", *sums)]:
            shares = (f"{each / (total or 1.0):.1%}" for each, total in zip(both, sums[1:], strict=True))
            cells = (f"{each:.1f}" for each in both)
            made.add_row(name, f"{tests:,}", *(cell for pair in zip(cells, shares, strict=True) for cell in pair))
        return made


def _sums(rows: list[tuple[str, int, float, float]]) -> tuple[int, float, float]:
    return sum(row[1] for row in rows), sum(row[2] for row in rows), sum(row[3] for row in rows)
