"""A table that is refreshed: in place on a terminal, otherwise one table below the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from rocketpy.cli.text import escaped, time_text
from rocketpy.seams import wall_ms

if TYPE_CHECKING:
    from rocketpy.cli.output import Column, Output

__all__ = ["Show", "live"]

Show: TypeAlias = Callable[["Sequence[Column]", list[dict[str, Any]], list[str]], None]
"""Shows rows under their columns, with lines below."""


@contextmanager
def live(output: Output, empty: str) -> Iterator[Show]:
    """Show tables for the duration of a block.

    Args:
        output: Where to.
        empty: What is shown if there are no rows.
    """
    if not output.is_drawn:
        yield lambda columns, rows, below: _repeated(output, columns, rows, below, empty)
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from rocketpy.cli.output import drawn

    with Live(auto_refresh=False, transient=False) as screen:

        def show(columns: Sequence[Column], rows: list[dict[str, Any]], below: list[str]) -> None:
            table = drawn(columns, ([column.text(row) for column in columns] for row in rows))
            lines = [*([] if rows else [empty]), *below, f"{_now()}, Ctrl-C to stop"]
            screen.update(Group(table, *(Text(escaped(line), style="dim") for line in lines)), refresh=True)

        yield show


def _repeated(
    output: Output, columns: Sequence[Column], rows: list[dict[str, Any]], below: list[str], empty: str
) -> None:
    if output.as_json:
        at = wall_ms()
        output.rows(columns, ({"at": at, **row} for row in rows))
    else:
        output.note(_now())
        output.rows(columns, rows, empty=empty)
        for line in (*below, ""):
            output.note(escaped(line))
    output.flush()


def _now() -> str:
    return f"{time_text(wall_ms())} UTC"
