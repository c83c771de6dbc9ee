"""Slices: makes large results in steps, between which other tasks run. Pure.

A cluster may have a hundred thousand topics, groups or queues. Sorting them at once would keep the loop from everything
else for longer than a heartbeat may be late.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any, ParamSpec, TypeVar

__all__ = ["at_once", "made", "sorted_steps"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

_RUN = 1024
"""Items that are sorted in one step."""
_STEP = 256
"""Items that are made, or merged, in one step."""


def at_once(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Generator[None, None, R]:
    """Call a function in a single step."""
    yield
    return function(*args, **kwargs)


def made(items: Iterable[T]) -> Generator[None, None, list[T]]:
    """Put what an iterator makes into a list, in steps."""
    left, found = iter(items), list[T]()
    while part := list(islice(left, _STEP)):
        found += part
        yield
    return found


def sorted_steps(items: Iterable[T], key: Callable[[T], Any]) -> Generator[None, None, tuple[T, ...]]:
    """Sort what an iterator makes, in steps. Equal items keep their order."""
    left, runs = iter(items), list[list[T]]()
    while run := sorted(islice(left, _RUN), key=key):
        runs.append(run)
        yield
    if len(runs) == 1:
        return tuple(runs[0])
    return tuple((yield from made(heapq.merge(*runs, key=key))))
