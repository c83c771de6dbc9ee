"""Gives memory back to the system that stays free between blocks in use, after a flood of requests has gone.

Blocks of some hundred kilobytes lie in the heap of the C library, and what outlives a flood lies between them: glibc
gives back the end of a heap by itself, gaps only when it is asked. Only for servers that have a process for themselves.
Elsewhere, as with other C libraries, nothing is done. Has no counterpart in Java.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from typing import Protocol

import trio

from rocketpy.services import run_blocking

__all__ = ["WORTH_GIVING_BACK", "Heap", "give_gaps_back", "heap_of_this_process"]

WORTH_GIVING_BACK = 8 * 1024 * 1024
"""Bytes from which on it is worth the milliseconds that going through the heap takes."""
_LOOKS_EVERY = 1.0
_SHARE = 0.01
"""How much of the time goes into looking at most: nothing in the process can take memory of that size meanwhile."""


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
    """Look once a second, until cancelled, whether 8 MiB have become free that were not given back, and give them back.

    A heap in very many pieces, where a look takes long, is looked at less often.

    What was given back is still free within the heap, until it is used again. So they have become free when there are
    more gaps than the last time, or when the process has grown since, because old gaps were used and left between two
    looks.

    Args:
        heap: None where there is no way to ask for it; then this returns.
    """
    if heap is None:
        return
    lowest = heap.resident()
    small, given_back = lowest + WORTH_GIVING_BACK, 0
    took = 0.0
    while True:
        await trio.sleep(max(_LOOKS_EVERY, took / _SHARE))
        resident = heap.resident()
        lowest = min(lowest, resident)
        if resident < small:
            given_back = 0  # nothing of note has come since the start
            continue
        with contextlib.suppress(RuntimeError):  # there is no room for one more thread now
            began = trio.current_time()
            gaps = await run_blocking(heap.gaps)
            took = trio.current_time() - began
            given_back = min(given_back, gaps)
            grown = min(gaps, resident - lowest)
            if max(gaps - given_back, grown) >= WORTH_GIVING_BACK:
                await run_blocking(heap.trim)
                given_back, lowest = gaps, heap.resident()


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
        # Kept open: a server that has run out of descriptors looks as well.
        self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._statm)

    def resident(self) -> int:
        _, resident, shared, *_ = os.pread(self._statm, 256, 0).split()
        return (int(resident) - int(shared)) * mmap.PAGESIZE

    def gaps(self) -> int:
        free: int = self._info().fordblks
        return free

    def trim(self) -> None:
        self._trim(0)
