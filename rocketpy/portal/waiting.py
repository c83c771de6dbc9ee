"""Waits of blocking code that let signal handlers run.

The system may deliver a signal to any thread, or to the main thread just before it begins to wait. Python only notes
it, and calls the handler when the main thread runs next. So all waits here are cut into short turns.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

__all__ = ["LOOK", "acquire", "wait"]

LOOK = 0.5
"""The longest turn, in seconds."""


def acquire(lock: threading.Lock, until: float | None = None) -> bool:
    """Acquire a lock, waiting at most until a time on the monotonic clock. Returns whether it was acquired."""
    while not lock.acquire(timeout=LOOK if until is None else max(0.0, min(LOOK, until - monotonic()))):
        # Signal handlers have run.
        if until is not None and monotonic() >= until:
            return False
    return True


def wait(event: threading.Event, timeout: float | None = None) -> bool:
    """Wait up to `timeout` seconds for an event. Returns whether it is set."""
    end = None if timeout is None else monotonic() + timeout
    while not event.wait(LOOK if end is None else min(LOOK, end - monotonic())):
        if end is not None and monotonic() >= end:
            return event.is_set()
    return True
