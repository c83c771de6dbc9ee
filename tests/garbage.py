"""What the garbage collector would have to take apart: cycles that reference counting leaves behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["OBJECTS_A_COLLECTION", "garbage"]

OBJECTS_A_COLLECTION = 5000
"""New objects after which Python looks for garbage, in processes that run tests: seven times as many as by default."""


@contextmanager
def garbage() -> Iterator[Callable[..., int]]:
    """For a block, ``found(*kinds)``: how many objects with such class names have become garbage in cycles."""
    gc.collect()
    saved, flags = gc.garbage, gc.get_debug()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)

    def found(*kinds: str) -> int:
        gc.collect()
        return sum(1 for each in saved if type(each).__name__ in kinds)

    try:
        yield found
    finally:
        gc.set_debug(flags)
        gc.enable()
        saved.clear()
