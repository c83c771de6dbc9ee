"""How far the rows are, while Spark's own call blocks: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from examples.quickstart.screen import Bars, progress

TICK = 0.2
LINE_EVERY = 2.0


class _Lines:
    """For pipes and log files."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LINE_EVERY

    def update(self, sent: int, received: int) -> None:
        """Print a line when the last one is old enough."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY
            print(f"  {sent:>9,} sent  {received:>9,} received", flush=True)


@contextlib.contextmanager
def shown(total: int, sent: Callable[[], int], received: Callable[[], int]) -> Iterator[None]:
    """Show both numbers for the time of the block, from a thread of its own."""
    ended = threading.Event()

    def show(bars: Bars) -> None:
        while not ended.wait(TICK):
            bars.update(sent(), received())
        bars.update(sent(), received())

    with progress(total) as bars:
        thread = threading.Thread(target=show, args=(bars if sys.stderr.isatty() else _Lines(),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
