"""How much processor time a call takes, and how long work that is done in steps holds up the loop."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tests.pace import slowness

__all__ = ["cost", "longest", "without_full_collections"]

_NEVER = 1 << 30


def longest(make: Callable[[], Generator[Any, None, Any]], *, tries: int = 2) -> tuple[float, Any]:
    """Return the processor time of the longest step of some work, in the best of some tries, and what it returned.

    The time is told in seconds of an ordinary machine (see `pace`). The collector of garbage counts, but for its full
    collections: these strike in any step, and take as long as everything that the tests hold.
    """
    best, result = 9.9, None
    for _ in range(tries):
        with without_full_collections():
            worst, result = _worst(make())
        worst /= slowness()
        best = min(best, worst)
    return best, result


def cost(function: Callable[[], object], *, tries: int = 3) -> float:
    """Return the processor time of a call, in the best of some tries, told as `longest` tells it."""
    best = 9.9
    for _ in range(tries):
        with without_full_collections():
            began = time.thread_time()
            function()
            took = time.thread_time() - began
        best = min(best, took / slowness())
    return best


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
def without_full_collections() -> Generator[None]:
    """Keep the collector from looking through everything that the tests hold, which may take a second by now."""
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
