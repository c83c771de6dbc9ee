"""Tells whether code runs inside a listener, and of which consumer.

A call that waits for listeners must not wait for the listener that makes it. Each worker of a runner sets a context
variable once, before its first call. What a listener starts (tasks, calls in threads of asyncio) inherits it, and
counts as inside the listener as long as the listener runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Working", "current_owner", "inside", "is_inside", "is_writing", "mark", "mark_thread"]


class Working(Protocol):
    """A worker of a runner. A worker that is a thread has its ident in `thread`."""

    @property
    def call(self) -> object | None:
        """The call that is running, None between calls."""
        ...


_thread = threading.local()
_worker_of: ContextVar[tuple[object, Working] | None] = ContextVar("rocketpy_listener", default=None)


def mark(owner: object, worker: Working) -> None:
    """Mark this context as that of a worker that makes calls for `owner`."""
    _worker_of.set((owner, worker))


def mark_thread(owner: object) -> None:
    """Mark this thread as one that does nothing but make calls for `owner`."""
    _thread.owner = owner


class _Called:
    """A running function of the user's other than a listener.

    Args:
        writes: whether commits wait for it, as for `write` of an offset store.
    """

    def __init__(self, *, writes: bool) -> None:
        self.call: object | None = True
        self.writes = writes


@contextmanager
def inside(owner: object, *, writes: bool = False) -> Iterator[None]:
    """Mark this context as inside a listener of `owner` for a block; with `writes`, as inside a commit too."""
    called = _Called(writes=writes)
    token = _worker_of.set((owner, called))
    try:
        yield
    finally:
        called.call = None
        _worker_of.reset(token)


def current_owner() -> object | None:
    """The owner of the call that this code runs in; None if it does not run in one."""
    found = _worker_of.get()
    return None if found is None or found[1].call is None else found[0]


def is_inside(owner: object) -> bool:
    """Whether the caller is a running listener of `owner`, or was started by one."""
    if getattr(_thread, "owner", None) is owner:
        return True  # a finalizer may run between two calls, or in the loop itself, and closing waits for this thread
    found = _worker_of.get()
    if found is None or found[0] is not owner:
        return False
    worker = found[1]
    # Between two calls a finalizer may run in the thread of a worker, and closing waits for that thread too.
    return worker.call is not None or getattr(worker, "thread", 0) == threading.get_ident()


def is_writing(owner: object) -> bool:
    """Whether the caller is `write` of the offset store of `owner` while it runs, or was started by it."""
    found = _worker_of.get()
    if found is None or found[0] is not owner:
        return False
    return isinstance(found[1], _Called) and found[1].writes and found[1].call is not None
