"""Gives memory back to the system that stays free between blocks in use, after a flood of requests has gone.

Blocks of some hundred kilobytes lie in the heap of the C library, and what outlives a flood lies between them: glibc
gives back the end of a heap by itself, gaps only when it is asked. Only for servers that have a process for themselves.
Elsewhere, as with other C libraries, nothing is done. Has no counterpart in Java.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import Protocol

import trio

from rocketpy.services import run_blocking

__all__ = ["WORTH_GIVING_BACK", "Heap", "give_gaps_back", "heap_of_this_process"]

WORTH_GIVING_BACK = 32 * 1024 * 1024
"""Bytes of gaps, beyond those given back before, from which on the heap is gone through: that takes milliseconds."""
_LOOKS_EVERY = 1.0
_STATM = Path("/proc/self/statm")


class Heap(Protocol):
    """What the C library has taken from the system."""

    def resident(self) -> int:
        """Bytes of memory that the process has for itself; cheap to ask."""
        ...

    def gaps(self) -> int:
        """Bytes that are free within the heap, given back or not. Goes through all of them."""
        ...

    def trim(self) -> None:
        """Give the pages of all gaps back."""
        ...


async def give_gaps_back(heap: Heap | None) -> None:
    """Look once a second, until cancelled, whether gaps have grown by 32 MiB, and give them back.

    Gaps that were given back do not count again until they have been used in the meantime.

    Args:
        heap: None where there is no way to ask for it; then this returns.
    """
    if heap is None:
        return
    small, given_back = heap.resident() + WORTH_GIVING_BACK, 0
    while True:
        await trio.sleep(_LOOKS_EVERY)
        if heap.resident() < small:
            given_back = 0  # nothing of note has come since the start
            continue
        gaps = await run_blocking(heap.gaps)
        given_back = min(given_back, gaps)
        if gaps - given_back >= WORTH_GIVING_BACK:
            await run_blocking(heap.trim)
            given_back = gaps


def heap_of_this_process() -> Heap | None:
    """That of glibc 2.33 or newer; None elsewhere."""
    try:
        return _Glibc()
    except (OSError, AttributeError, TypeError):
        return None


class _MallInfo2(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    )


class _Glibc:
    """Calls through ctypes let other threads of Python run meanwhile."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._info = library.mallinfo2
        self._info.restype = _MallInfo2
        self._trim = library.malloc_trim
        self._trim.argtypes = (ctypes.c_size_t,)
        self.resident()

    def resident(self) -> int:
        _, resident, shared, *_ = _STATM.read_text("ascii").split()
        return (int(resident) - int(shared)) * mmap.PAGESIZE

    def gaps(self) -> int:
        free: int = self._info().fordblks
        return free

    def trim(self) -> None:
        self._trim(0)
