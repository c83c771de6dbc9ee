"""Shows the progress of a long command on standard error if it is a terminal: a bar of rich, or a plain line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["progress"]

EVERY = 0.2
"""Seconds between two plain lines."""


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int, int], object]]:
    """Show progress.

    Args:
        what: what is being done.
        total: how many bytes there are; None if this is not known.

    Yields:
        A function to call with the messages and bytes that are done since the last call.
    """
    if not sys.stderr.isatty():
        yield lambda messages, size: None
    elif find_spec("rich") is not None:
        with _bar() as bar:
            task = bar.add_task(what, total=total, messages=0)
            yield lambda messages, size: bar.update(
                task, advance=size, messages=bar.tasks[task].fields["messages"] + messages
            )
    else:
        with _lines(what, total) as show:
            yield show


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[messages]:,} messages"),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def _lines(what: str, total: int | None) -> Iterator[Callable[[int, int], object]]:
    done, bytes_done, shown, width = 0, 0, 0.0, 0

    def show(messages: int, size: int) -> None:
        nonlocal done, bytes_done, shown, width
        done, bytes_done = done + messages, bytes_done + size
        if monotonic() - shown < EVERY:
            return
        shown = monotonic()
        share = f", {min(100, bytes_done * 100 // total)} %" if total else ""
        text = f"{what}: {done:,} messages{share}"
        width = max(width, len(text))
        print(f"\r{text:<{width}}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if width:
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)
