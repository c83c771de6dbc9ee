"""Where the time of a run goes, by folder and by file: `./dev test --durations`.

A plugin of pytest. Seconds are those of set-up, test and clean-up together, of all workers; side by side they come to
more than the clock on the wall says.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import PurePosixPath

import pytest
from rich.console import Console
from rich.table import Table

__all__ = ["Durations"]

_MOST_FILES = 40


class Durations:
    """Seconds and tests of each file."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of a test."""
        file = report.nodeid.partition("::")[0]
        self.seconds[file] += report.duration
        self.tests[file] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print both tables."""
        folders = Durations()
        for file, seconds in self.seconds.items():
            folder = "/".join(PurePosixPath(file).parts[:2]) if file.count("/") > 1 else "tests"
            folders.seconds[folder] += seconds
            folders.tests[folder] += self.tests[file]
        terminalreporter.section("where the time goes")
        console = Console(file=terminalreporter._tw._file, width=shutil.get_terminal_size((120, 24)).columns)
        console.print(folders.table("folder"))
        console.print(self.table("file", most=_MOST_FILES))

    def table(self, what: str, *, most: int | None = None) -> Table:
        """The longest first; those beyond `most` in one line."""
        made = Table(what, "tests", "seconds", "of all", box=None, header_style="bold")
        for column in made.columns[1:]:
            column.justify = "right"
        total = sum(self.seconds.values()) or 1.0
        rows = [(name, self.tests[name], seconds) for name, seconds in self.seconds.most_common()]
        shown, rest = rows[:most], rows[most:] if most else []
        if rest:
            shown.append((f"{len(rest)} more", sum(row[1] for row in rest), sum(row[2] for row in rest)))
        for name, tests, seconds in [*shown, ("all", sum(self.tests.values()), total)]:
            made.add_row(name, f"{tests:,}", f"{seconds:.1f}", f"{seconds / total:.1%}")
        return made
