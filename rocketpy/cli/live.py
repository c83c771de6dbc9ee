"""A table that is refreshed: in place on a terminal, otherwise one table below the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from rocketpy.cli.text import escaped, time_text
from rocketpy.seams import wall_ms

if TYPE_CHECKING:
    from rocketpy.cli.options import Decorator
    from rocketpy.cli.output import Column, Output
    from rocketpy.cli.session import Session

__all__ = ["Look", "Show", "check_watch", "live", "repeated", "watch_options"]

Show: TypeAlias = Callable[["Sequence[Column]", list[dict[str, Any]], list[str]], None]
"""Shows rows under their columns, with lines below."""

Look: TypeAlias = Callable[[], "tuple[list[dict[str, Any]], list[str]]"]
"""Returns rows, and the lines below them."""


def watch_options(every: float) -> Decorator:
    """The options --watch, --every and --times.

    Args:
        every: How many seconds are between two refreshes by default.
    """
    options = (
        click.option("--watch", "-w", is_flag=True, help=f"Refresh until Ctrl-C, every {every:g} seconds by default."),
        click.option("--every", type=float, metavar="SECONDS", help="With --watch: seconds between two refreshes."),
        click.option("--times", type=int, metavar="N", help="With --watch: show it this many times, then stop."),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def check_watch(watch: bool, every: float | None, times: int | None) -> None:
    """Check the values of these options.

    Raises:
        ConfigError: One cannot be used.
    """
    from rocketpy.errors import ConfigError

    if not watch and (every is not None or times is not None):
        raise ConfigError("--every and --times need --watch")
    if every is not None and not 0.1 <= every <= 86_400:
        raise ConfigError(f"--every must be 0.1 to 86400 seconds, not {every:g}")
    if times is not None and times < 1:
        raise ConfigError(f"--times must be at least 1, not {times}")


def repeated(
    session: Session, columns: Sequence[Column], look: Look, *, empty: str, every: float, times: int | None
) -> None:
    """Look until Ctrl-C. If the first or the last look fails, the command fails. Other failures are shown in place of
    the table, or below it if some servers have answered; with --json, they go to standard error.

    Args:
        session: The call.
        columns: The columns of the table.
        look: Returns what is shown now.
        empty: What is shown if there are no rows.
        every: How many seconds are between two looks.
        times: How many looks; None for no end.

    Raises:
        RocketMQError: The first or the last look failed.
    """
    from rocketpy.cli.failing import tell
    from rocketpy.errors import RocketMQError

    never = Event()
    looks = 0
    with live(session.output, empty) as show:
        while True:
            session.failed.clear()
            rows: list[dict[str, Any]] = []
            below: list[str] = []
            failure: RocketMQError | None = None
            try:
                rows, below = look()
            except RocketMQError as error:
                if not looks:
                    raise
                failure = error
            failures = [*session.failed, *([] if failure is None else [failure])]
            show(columns, rows, [*below, *map(str, failures)])
            looks += 1
            if looks == times:
                if failure is not None:
                    raise failure
                return  # what only some servers answered is told at the end of the command
            if session.as_json:
                for each in failures:
                    tell(each)
            never.wait(every)


@contextmanager
def live(output: Output, empty: str) -> Iterator[Show]:
    """Show tables for the duration of a block.

    Args:
        output: Where to.
        empty: What is shown if there are no rows.
    """
    if not output.is_drawn:
        yield lambda columns, rows, below: _below_each_other(output, columns, rows, below, empty)
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


def _below_each_other(
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
