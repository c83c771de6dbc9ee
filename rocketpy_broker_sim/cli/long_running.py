"""What a server that has a process for itself asks of the interpreter, so that its loop is not held up.

Not for servers within a program of somebody else's: these settings are of the whole process. docs/design.md has the
figures. Has no counterpart in Java, where the options of the virtual machine do this.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["long_running"]

SWITCH_SECONDS = 0.0005
"""How long a thread that flushes may compute before the loop gets its turn; Python's own 5 ms are twenty sends long."""

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
"""Names of settings in malloc.h."""
_LARGE = 1024 * 1024
"""Bytes from which on a block is a mapping of its own; less would make a system call of every larger read."""
_YOUNG, _FULL = 1, 2
"""The oldest generation of the collector but one, and the oldest."""
_ALWAYS_FREE = 300_000
"""Blocks of memory that may always be set aside: some 30 MB, or 1,200 connections."""


@contextmanager
def long_running() -> Iterator[None]:
    """Settings for the time that a server serves.

    What it holds when it begins, tables and queues above all, is not looked through by the garbage collector any more;
    neither is what a full collection has found alive later.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    linecache.clearcache()  # what attrs left there: the text of every method that it has made
    gc.collect(_YOUNG)  # a full one takes 10 ms, and after the imports it finds some thirty objects
    gc.freeze()
    _give_large_blocks_back()
    looked_through = _LookedThrough()
    gc.callbacks.append(looked_through.note)
    try:
        yield
    finally:
        gc.callbacks.remove(looked_through.note)
        gc.unfreeze()
        sys.setswitchinterval(before)


def _give_large_blocks_back() -> None:
    """Have the C library give memory of large bodies back to the system as soon as they are gone.

    Left alone, glibc takes a freed block of 16 MiB for a sign that more will come, and keeps such blocks from then on.
    Where there is no such function, nothing has to be done.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, 8 * _LARGE)


class _LookedThrough:
    """Sets aside what each full collection has looked through, so that the next one costs what has come since.

    What is set aside and becomes a cycle without an owner, as connections do that are closed, stays in memory. So all
    is looked through again when twice as much is in use as the last time, and a little more.
    """

    def __init__(self) -> None:
        self._at_last = sys.getallocatedblocks()
        """Blocks of memory in use when all was looked through last. To count objects would go through all of them."""
        self._is_all_young = False

    def note(self, phase: str, info: dict[str, int]) -> None:
        """What the collector calls before and after each collection."""
        if phase != "stop" or info["generation"] != _FULL:
            return
        blocks = sys.getallocatedblocks()
        if not blocks:
            return  # memory is the C library's alone, as with PYTHONMALLOC=malloc, and nothing tells how much is in use
        if self._is_all_young:
            self._at_last, self._is_all_young = blocks, False
        else:
            self._is_all_young = blocks > 2 * self._at_last + _ALWAYS_FREE
        if self._is_all_young:
            gc.unfreeze()
        else:
            gc.freeze()
