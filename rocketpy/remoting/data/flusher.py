"""The thread of a connection that writes what nobody else writes just now: frames left for later, and what the kernel
did not take.

It only ever writes what lies there, so nothing that users do can hold it up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from rocketpy.remoting.data.late_thread import LateThread

__all__ = ["Flusher"]

_PAUSE = 0.01
"""Seconds between two looks at a socket that took less than it was given."""


class Flusher:
    """Flushes one output when it is asked. Its thread is there from the first time on, until it is closed.

    Args:
        flush: writes; whether nothing is left to be written.

    Attributes:
        thread: the thread.
    """

    def __init__(self, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._wake = threading.Lock()
        self._wake.acquire()
        self._closed = False
        self.thread = LateThread(self._run, "rocketpy-writer")

    def ask(self) -> None:
        """Have it flushed soon. Never waits.

        Raises:
            RuntimeError: no more threads can be had just now.
        """
        self.thread.begin()
        self._awaken()

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        self._awaken()

    def _awaken(self) -> None:
        with suppress(RuntimeError):  # it is awake already
            self._wake.release()

    def _run(self) -> None:
        stalled = False
        while not self._closed:
            self._wake.acquire(timeout=_PAUSE if stalled else -1)
            stalled = not self._flush()
        self._awaken()  # another one, if there is one
