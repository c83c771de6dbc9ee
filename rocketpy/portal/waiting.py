"""Waits of blocking code that a signal is noticed in.

The system may give a signal to any thread, and to the main one just before it begins to wait. Python notes it then, and
calls the handler when the main thread runs next. So nothing here waits for long without running in between.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

__all__ = ["LOOK", "acquire", "wait"]

LOOK = 0.5
"""Seconds between two looks."""


def acquire(lock: threading.Lock, until: float | None = None) -> bool:
    """Acquire a lock, however long it takes, or until a time on the monotonic clock; whether it is acquired."""
    while not lock.acquire(timeout=LOOK if until is None else max(0.0, min(LOOK, until - monotonic()))):
        # Handlers have been called.
        if until is not None and monotonic() >= until:
            return False
    return True


def wait(event: threading.Event, timeout: float | None = None) -> bool:
    """Wait for an event, at most so many seconds; whether it is set."""
    end = None if timeout is None else monotonic() + timeout
    while not event.wait(LOOK if end is None else min(LOOK, end - monotonic())):
        if end is not None and monotonic() >= end:
            return event.is_set()
    return True
