"""Rows on standard output: as tables for people, or as one JSON object per line for programs.

Rows stream: a table of millions is printed in pieces, each with its columns aligned. On a terminal `rich` draws them
when it is installed; into a pipe they are plain text, whether it is installed or not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketpy.cli.text import cell, escaped, time_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Column", "Output", "drawn", "named", "rate", "time"]

PIECE = 500


class Column(NamedTuple):
    """A column of a table."""

    title: str
    """Its heading."""
    value: str | Callable[[dict[str, Any]], str]
    """The field that it shows, or a function that makes its text from a row."""
    is_number: bool = False
    """Whether it is aligned to the right."""

    def text(self, row: dict[str, Any]) -> str:
        """The text of a row in this column."""
        return cell(row.get(self.value)) if isinstance(self.value, str) else escaped(self.value(row))


def named(title: str, field: str) -> Column:
    """A column of names, which are shown whole: shortened names could look the same."""
    return Column(title, lambda row: "-" if row.get(field) is None else str(row[field]))


def rate(title: str, field: str) -> Column:
    """A column of rates, with one decimal."""
    return Column(title, lambda row: "-" if row[field] is None else f"{row[field]:.1f}", True)


def time(title: str, field: str) -> Column:
    """A column of times, which rows have in milliseconds since 1970."""
    return Column(f"{title} (UTC)", lambda row: time_text(row[field]))


_VALUE = Column("value", lambda row: row["value"])


class Output:
    """Where a command prints its results.

    Attributes:
        as_json: Whether rows go out as JSON.
        is_drawn: Whether `rich` draws them, on a terminal.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.is_drawn = not as_json and sys.stdout.isatty() and find_spec("rich") is not None

    def rows(self, columns: Sequence[Column], rows: Iterable[dict[str, Any]], *, empty: str = "") -> int:
        """Print rows; returns how many there were.

        Args:
            columns: The columns of a table.
            rows: The rows.
            empty: What people read if there are none.
        """
        if self.as_json:
            return self._json(rows)
        remaining, total = iter(rows), 0
        while piece := list(islice(remaining, PIECE)):
            texts = [[column.text(row) for column in columns] for row in piece]
            if self.is_drawn:
                _draw(columns, texts)
            else:
                _print(columns, texts, with_titles=not total)
            total += len(piece)
        if not total and empty:
            self.note(empty)
        return total

    def settings(self, settings: Mapping[str, str]) -> None:
        """Print settings, sorted by their keys."""
        self.rows((named("key", "key"), _VALUE), ({"key": key, "value": settings[key]} for key in sorted(settings)))

    def lines(self, text: str) -> None:
        """Print a text of several lines, such as the stacks of a client, for people."""
        for line in text.splitlines():
            self.note(escaped(line.expandtabs(4)))

    def done(self, text: str, **row: Any) -> None:
        """Say what a command has changed: a line for people, or a row for programs."""
        if self.as_json:
            self._json([row])
        else:
            print(escaped(text))

    def _json(self, rows: Iterable[dict[str, Any]]) -> int:
        total = 0
        for total, row in enumerate(rows, 1):  # noqa: B007
            print(json.dumps(row, sort_keys=True))
        return total

    def flush(self) -> None:
        """Pass what was printed to the reader."""
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """A line for people, or several."""
        if not self.as_json:
            print("\n".join(map(escaped, text.split("\n"))))


def _print(columns: Sequence[Column], texts: list[list[str]], *, with_titles: bool) -> None:
    lines = [[column.title for column in columns], *texts] if with_titles else texts
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = [
            text.rjust(width) if column.is_number else text.ljust(width)
            for column, text, width in zip(columns, line, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _draw(columns: Sequence[Column], texts: Iterable[Sequence[str]]) -> None:
    from rich.console import Console

    Console().print(drawn(columns, texts))


def drawn(columns: Sequence[Column], texts: Iterable[Sequence[str]]) -> Table:
    """A table of `rich`."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.title, justify="right" if column.is_number else "left", overflow="fold")
    for line in texts:
        table.add_row(*map(Text, line))  # as text: brackets in a topic are no markup
    return table
