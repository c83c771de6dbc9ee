"""Rows on standard output: as tables for people, or as one JSON object a line for machines.

Rows stream: a table of millions is printed in pieces, each with its columns aligned. On a terminal `rich` draws them
when it is installed; into a pipe they are plain text, whether it is installed or not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any, NamedTuple

from rocketpy_broker_sim.cli.store.text import cell

__all__ = ["Column", "Output"]

PIECE = 500


class Column(NamedTuple):
    """A column of a table."""

    title: str
    value: str | Callable[[dict[str, Any]], str]
    """The field that it shows, or what makes its text of a row; such text must be printable."""
    is_number: bool = False

    def text(self, row: dict[str, Any]) -> str:
        """What stands in the column."""
        return cell(row.get(self.value)) if isinstance(self.value, str) else self.value(row)


class Output:
    """Where a command puts what it found.

    Attributes:
        as_json: Whether rows go out as JSON.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._drawn = not as_json and sys.stdout.isatty() and find_spec("rich") is not None

    def rows(self, columns: Sequence[Column], rows: Iterable[dict[str, Any]], *, empty: str = "") -> int:
        """Print rows; returns how many there were.

        Args:
            columns: What of them a table shows.
            rows: The rows.
            empty: For people, where there are none.
        """
        if self.as_json:
            return self._json(rows)
        remaining, total = iter(rows), 0
        while piece := list(islice(remaining, PIECE)):
            texts = [[column.text(row) for column in columns] for row in piece]
            if self._drawn:
                _draw(columns, texts)
            else:
                _print(columns, texts, with_titles=not total)
            total += len(piece)
        if not total and empty:
            self.note(empty)
        return total

    def _json(self, rows: Iterable[dict[str, Any]]) -> int:
        total = 0
        for total, row in enumerate(rows, 1):  # noqa: B007
            print(json.dumps(row, sort_keys=True))
        return total

    def note(self, text: str) -> None:
        """A line for people."""
        if not self.as_json:
            print(text)


def _print(columns: Sequence[Column], texts: list[list[str]], *, with_titles: bool) -> None:
    lines = [[column.title for column in columns], *texts] if with_titles else texts
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = [
            text.rjust(width) if column.is_number else text.ljust(width)
            for column, text, width in zip(columns, line, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _draw(columns: Sequence[Column], texts: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
    for line in texts:
        table.add_row(*map(Text, line))  # as text: brackets in a topic are no markup
    Console().print(table)
