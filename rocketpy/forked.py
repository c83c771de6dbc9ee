"""Forks in users' functions that run in a thread of ours: the child process ends when the function returns.

The child has a copy of only that thread, which would go on with the parent's work: it would send the same messages
again, and change the set of sockets that the parent's loop watches, because both processes share it. So the child
ends: with status 0, with the status of a SystemExit, or with 1 and the traceback of another exception. A function that
ends the child itself (`os._exit`, `os.execv`, `multiprocessing`) never gets here.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import suppress
from types import TracebackType
from typing import NoReturn

__all__ = ["ChildEnds", "end_child", "mark_as_ours"]

_here = threading.local()


def mark_as_ours() -> None:
    """Mark the current thread as one of ours: no code of a user's is below it on the stack."""
    _here.is_ours = True


class ChildEnds:
    """A context manager for the call of a user's function, which ends a child that the function has forked.

    Args:
        everywhere: whether this applies in every thread, because no caller is a thread of the user's.
    """

    __slots__ = ("_ends", "_pid")

    def __init__(self, *, everywhere: bool = False) -> None:
        self._ends = everywhere or getattr(_here, "is_ours", False)

    def __enter__(self) -> None:
        """Remember the process."""
        self._pid = os.getpid() if self._ends else 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process if it is a child that the function has forked."""
        if self._ends and os.getpid() != self._pid:
            end_child(error)


def end_child(error: BaseException | None) -> NoReturn:
    """End this process as if its program had ended, but without exit handlers, which belong to the parent.

    Args:
        error: what the user's function raised, None if it returned.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        status = 1
        with suppress(Exception):
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF)
