"""The thread of a connection that writes what nobody else writes just now: frames left for later, and what the kernel
did not take.

It only ever writes what lies there, so nothing that users do can hold it up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Flusher"]

_PAUSE = 0.01
"""Seconds between two looks at a socket that took less than it was given."""


class Flusher:
    """Flushes one output when it is asked. Its thread is there from the first time on, until it is closed.

    Args:
        flush: writes; whether nothing is left to be written.

    Attributes:
        thread: the thread, 0 while there is none.
    """

    def __init__(self, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._wake = threading.Lock()
        self._wake.acquire()
        self._starting = threading.Lock()
        self._closed = False
        self.thread = 0

    def ask(self) -> None:
        """Have it flushed soon. Never waits."""
        if not self.thread and self._starting.acquire(False):
            try:
                threading.Thread(target=self._run, name="rocketpy-writer", daemon=True).start()
            except BaseException:
                self._starting.release()  # no more threads can be had just now
                raise
        with suppress(RuntimeError):  # it is awake already
            self._wake.release()

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        with suppress(RuntimeError):
            self._wake.release()

    def _run(self) -> None:
        self.thread = threading.get_ident()
        stalled = False
        while not self._closed:
            self._wake.acquire(timeout=_PAUSE if stalled else -1)
            stalled = not self._flush()
