"""The wall clock of a cluster in virtual time.

Times in messages, including those at which delayed messages are due, are milliseconds since 1970. If the loop runs on a
mock clock, they must follow it. Otherwise a message that is due in a minute would not be delivered after a minute of
virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from rocketpy.seams import wall_clock, wall_ms

__all__ = ["calendar"]


@contextmanager
def calendar() -> Iterator[None]:
    """Have `wall_ms` follow the clock of the loop inside a block, if that is a mock clock."""
    clock = trio.lowlevel.current_clock()
    if type(clock).__name__ != "MockClock":
        yield
        return
    began = wall_ms() - round(clock.current_time() * 1000)
    with wall_clock(lambda: began + round(clock.current_time() * 1000)):
        yield
