"""Whether code runs inside a listener, and of which consumer.

A call that waits for listeners must not wait for the very one that makes it. Each worker of a runner leaves a mark in
its context, once, before it makes its first call. What a listener starts (tasks, calls in threads of asyncio) inherits
the mark, and counts as the listener while that runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Working", "current_owner", "inside", "is_inside", "mark"]


class Working(Protocol):
    """A worker of a runner. One that is a thread says in `thread` which one."""

    @property
    def call(self) -> object | None:
        """What it calls now, None between calls."""
        ...


_worker_of: ContextVar[tuple[object, Working] | None] = ContextVar("rocketpy_listener", default=None)


def mark(owner: object, worker: Working) -> None:
    """From here on this context is that of a worker, which makes calls for this owner."""
    _worker_of.set((owner, worker))


class _Called:
    """A function of the user's that is no listener, while it runs."""

    call: object | None = True


@contextmanager
def inside(owner: object) -> Iterator[None]:
    """Within this block the context counts as inside of a listener of this owner."""
    called = _Called()
    token = _worker_of.set((owner, called))
    try:
        yield
    finally:
        called.call = None
        _worker_of.reset(token)


def current_owner() -> object | None:
    """For whom a call is made right here and now; None where this is no such call."""
    found = _worker_of.get()
    return None if found is None or found[1].call is None else found[0]


def is_inside(owner: object) -> bool:
    """Whether this is called by a listener that runs for this owner, or by what it has started."""
    found = _worker_of.get()
    if found is None or found[0] is not owner:
        return False
    worker = found[1]
    # Between two calls a finalizer may strike in the thread of a worker, for which closing waits as well.
    return worker.call is not None or getattr(worker, "thread", 0) == threading.get_ident()
