"""Progress bars and tables: with rich where it is installed, plain text where it is not or where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

try:
    import rich.progress
    import rich.table
    from rich.console import Console
    from rich.markup import escape
except ImportError:  # the [cli] extra is not there
    HAS_RICH = False
else:
    HAS_RICH = True


class Bars(Protocol):
    """Bars, such as what was sent and what was received."""

    def update(self, *done: int) -> None:
        """Show where things stand, with a number for each bar."""
        ...


class _NoBars:
    def update(self, *done: int) -> None:
        """Nobody watches."""


@contextmanager
def progress(total: int, names: Sequence[str] = ("sent", "received")) -> Iterator[Bars]:
    """Show progress on a terminal, with a bar for each name; nothing elsewhere."""
    if not HAS_RICH or not sys.stderr.isatty():
        yield _NoBars()
        return
    columns = (*rich.progress.Progress.get_default_columns(), rich.progress.MofNCompleteColumn())
    with rich.progress.Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = [bars.add_task(name, total=total) for name in names]

        class Several:
            def update(self, *done: int) -> None:
                for task, count in zip(tasks, done, strict=True):
                    bars.update(task, completed=count)

        yield Several()


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are figures."""
    if HAS_RICH and sys.stdout.isatty():
        made = rich.table.Table(
            *(rich.table.Column(escape(t), justify="left" if i == 0 else "right") for i, t in enumerate(titles))
        )
        for row in rows:
            made.add_row(*map(escape, row))  # "price [eur]" is a name, and no style
        Console().print(made)
        return
    widths = [max(len(line[i]) for line in (titles, *rows)) for i in range(len(titles))]
    for line in (titles, *rows):
        cells = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
