"""Returns memory to the system that lies free between used blocks after a flood of requests.

Blocks of some hundred kilobytes lie in the heap of the C library, with blocks that outlive a flood between them. glibc
returns the end of the heap by itself, but gaps only on request. This is only for servers that have a process of their
own; elsewhere, and with other C libraries, nothing is done. Has no counterpart in Java.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import time
import weakref
from typing import Protocol

import trio

from rocketpy.services import run_blocking

__all__ = ["WORTH_GIVING_BACK", "Heap", "give_gaps_back", "heap_of_this_process"]

WORTH_GIVING_BACK = 8 * 1024 * 1024
"""Bytes of gaps that are worth the milliseconds it takes to go through the heap."""
_LOOKS_EVERY = 1.0
_SHARE = 0.01
"""The largest share of time spent in checks, because no thread of the process can allocate from the heap during one."""


class Heap(Protocol):
    """The memory that the C library has taken from the system."""

    def resident(self) -> int:
        """Bytes of memory that belong to the process alone; cheap to read."""
        ...

    def gaps(self) -> int:
        """Bytes that are free within the heap, whether returned or not. Goes through the whole heap."""
        ...

    def trim(self) -> None:
        """Return the pages of all gaps."""
        ...


async def give_gaps_back(heap: Heap | None) -> None:
    """Check once a second, until cancelled, whether 8 MiB have become free that were not returned, and return them.

    A heap in very many pieces, where a check takes long, is checked less often. What counts is the time of the
    processor: on a busy machine, others run meanwhile.

    Returned memory still counts as a gap until it is used again. So more has become free if the gaps have grown since
    the last time, or if the process has grown, because old gaps were used and freed again between two checks.

    Args:
        heap: the heap; if None, because the C library does not support this, return at once.
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
            given_back = 0  # the process has hardly grown since the start
            continue
        with contextlib.suppress(RuntimeError):  # no thread could be started; the next check tries again
            gaps, took = await run_blocking(_timed, heap)
            given_back = min(given_back, gaps)
            grown = min(gaps, resident - lowest)
            if max(gaps - given_back, grown) >= WORTH_GIVING_BACK:
                await run_blocking(heap.trim)
                given_back, lowest = gaps, heap.resident()


def _timed(heap: Heap) -> tuple[int, float]:
    """The gaps of a heap, and the seconds of processor time that it took to find them."""
    began = time.thread_time()
    gaps = heap.gaps()
    return gaps, time.thread_time() - began


def heap_of_this_process() -> Heap | None:
    """The heap of glibc 2.33 or newer; None with anything else."""
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
    """The heap of glibc. Calls through ctypes release the interpreter, so other threads run meanwhile."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._info = library.mallinfo2
        self._info.restype = _MallInfo2
        self._trim = library.malloc_trim
        self._trim.argtypes = (ctypes.c_size_t,)
        # Kept open, so that a server that has run out of descriptors can still read it.
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
