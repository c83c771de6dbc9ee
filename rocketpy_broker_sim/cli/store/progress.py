"""A line on standard error that says how far a long look has come; only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]

WIDTH = 30


@contextmanager
def progress_bar(what: str, begin: int, end: int) -> Iterator[Callable[[int], None] | None]:
    """Show how far something has come.

    Args:
        what: What is being done.
        begin: The position at which it began.
        end: The position at which it ends.

    Yields:
        What is to be called with the position that was reached; None where nobody watches.
    """
    total = end - begin
    if not sys.stderr.isatty() or total <= 0:
        yield None
        return
    shown = -1

    def show(position: int) -> None:
        nonlocal shown
        percent = min(100, max(0, (position - begin) * 100 // total))
        if percent != shown:
            shown = percent
            bar = "#" * (percent * WIDTH // 100)
            print(f"\r{what} [{bar:<{WIDTH}}] {percent:3d} %", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r" + " " * (len(what) + WIDTH + 10) + "\r", end="", file=sys.stderr, flush=True)
