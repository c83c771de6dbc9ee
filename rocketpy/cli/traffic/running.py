"""Runs the async part of a command in a loop of its own, and raises one error where trio raises a group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import trio

__all__ = ["run"]

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function until it returns.

    Raises: what it raises; of several errors, Ctrl-C before a reader that has gone, and that before the others.
    """
    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        for kind in (KeyboardInterrupt, BrokenPipeError):
            for leaf in leaves:
                if isinstance(leaf, kind):
                    raise leaf from None
        raise leaves[0] from None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
