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
    """Flushes one output on request. Its thread starts with the first request and runs until `close`.

    Args:
        flush: writes, and returns whether nothing is left to write.

    Attributes:
        thread: the thread that writes.
    """

    def __init__(self, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._wake = threading.Lock()
        self._wake.acquire()
        self._closed = False
        self.thread = LateThread(self._run, "rocketpy-writer")

    def ask(self) -> None:
        """Flush the output soon. Never waits.

        Raises:
            RuntimeError: no thread could be started.
        """
        self.thread.begin()
        self._awaken()

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        self._awaken()

    def _awaken(self) -> None:
        with suppress(RuntimeError):  # already awake
            self._wake.release()

    def _run(self) -> None:
        stalled = False
        while not self._closed:
            self._wake.acquire(timeout=_PAUSE if stalled else -1)
            stalled = not self._flush()
        self._awaken()  # wakes a second thread, if there is one: see LateThread
