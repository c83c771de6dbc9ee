"""What a client process of a kill loop tells its parent: one event a line, written at once.

A line is `kind name milliseconds ...`; the clock is the machine's monotonic one, the same for every process. What was
written before a SIGKILL is still read: it lies in the pipe.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


def now() -> float:
    """Milliseconds of the machine's monotonic clock."""
    return time.monotonic() * 1000


def tell(kind: str, name: str = "-", *rest: object) -> None:
    """One event for the parent."""
    words = (kind, name, f"{now():.3f}", *map(str, rest))
    os.write(1, (" ".join(words) + "\n").encode())


@asynccontextmanager
async def until_terminated() -> AsyncIterator[trio.Event]:
    """An event that is set by SIGTERM."""
    event = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                async for _ in signals:
                    event.set()

            nursery.start_soon(watch)
            yield event
            nursery.cancel_scope.cancel()
