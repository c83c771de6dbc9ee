"""The thread that writes what nobody else writes just now: frames left for later, and what the kernel did not take.

One for a process, made on first use. It only ever writes what lies there, so nothing that users do can hold it up.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from typing import Protocol

__all__ = ["Flusher", "flusher"]

_PAUSE = 0.01
"""Seconds between two looks at sockets that took less than they were given."""


class Output(Protocol):
    """Something that can be flushed."""

    def flush_told(self) -> bool:
        """Write; whether nothing is left to be written."""


class Flusher:
    """Flushes outputs when it is asked."""

    def __init__(self) -> None:
        self._asked: deque[Output] = deque()
        self._wake = threading.Lock()
        self._wake.acquire()
        threading.Thread(target=self._run, name="rocketpy-flusher", daemon=True).start()

    def ask(self, output: Output) -> None:
        """Have an output flushed soon. Never waits."""
        self._asked.append(output)
        with suppress(RuntimeError):  # it is awake already
            self._wake.release()

    def _run(self) -> None:
        stalled: list[Output] = []
        while True:
            self._wake.acquire(timeout=_PAUSE if stalled else -1)
            again, stalled = stalled, []
            while self._asked:
                again.append(self._asked.popleft())
            stalled = [output for output in dict.fromkeys(again) if not output.flush_told()]


_current: Flusher | None = None
_lock = threading.Lock()


def flusher() -> Flusher:
    """That of this process."""
    global _current
    found = _current
    if found is None:
        with _lock:
            if _current is None:
                _current = Flusher()
            found = _current
    return found


def _forget_after_fork() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
