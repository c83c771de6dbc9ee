"""How long work that is done in steps holds up the loop."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tests.pace import slowness

__all__ = ["longest"]

_NEVER = 1 << 30


def longest(make: Callable[[], Generator[Any, None, Any]], *, tries: int = 2) -> tuple[float, Any]:
    """Return the processor time of the longest step of some work, in the best of some tries, and what it returned.

    The time is told in seconds of an ordinary machine (see `pace`). The collector of garbage counts, but for its full
    collections: these strike in any step, and take as long as everything that the tests hold.
    """
    best, result = 9.9, None
    for _ in range(tries):
        with _without_full_collections():
            worst, result = _worst(make())
        worst /= slowness()
        best = min(best, worst)
    return best, result


def _worst(steps: Generator[Any, None, Any]) -> tuple[float, Any]:
    worst = 0.0
    while True:
        began = time.thread_time()
        try:
            next(steps)
        except StopIteration as end:
            return max(worst, time.thread_time() - began), end.value
        worst = max(worst, time.thread_time() - began)


@contextmanager
def _without_full_collections() -> Generator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
