"""Shows progress while a call of Spark blocks: bars on a terminal, otherwise a line now and then."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from examples.quickstart.screen import Bars, progress

TICK = 0.2
LINE_EVERY = 2.0


class _Lines:
    """For pipes and log files."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._next = time.monotonic() + LINE_EVERY
        self._last: tuple[int, ...] = ()

    def update(self, *done: int) -> None:
        """Print a line if the last one is old enough and the counts have changed."""
        if time.monotonic() >= self._next and done != self._last:
            self._next = time.monotonic() + LINE_EVERY
            self._last = done
            print(*(f"  {count:>9,} {name}" for count, name in zip(done, self._names, strict=True)), sep="", flush=True)


@contextlib.contextmanager
def shown(total: int, counts: Mapping[str, Callable[[], int]]) -> Iterator[None]:
    """Show counts, by their names, from a separate thread while the block runs."""
    ended = threading.Event()

    def show(bars: Bars) -> None:
        while not ended.wait(TICK):
            bars.update(*(count() for count in counts.values()))
        bars.update(*(count() for count in counts.values()))

    with progress(total, [*counts]) as bars:
        watched = bars if sys.stderr.isatty() else _Lines([*counts])
        thread = threading.Thread(target=show, args=(watched,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
