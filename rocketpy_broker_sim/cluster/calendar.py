"""The calendar of a cluster in virtual time.

Times in messages and the times at which delayed messages are due are milliseconds since 1970. Where a mock clock rules
the loop, they have to follow it, or a message that is due in a minute would not come after a minute of virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from rocketpy.seams import wall_clock, wall_ms

__all__ = ["calendar"]


@contextmanager
def calendar() -> Iterator[None]:
    """Let `wall_ms` follow the clock of the loop for the time of a block, where that is a mock clock."""
    clock = trio.lowlevel.current_clock()
    if type(clock).__name__ != "MockClock":
        yield
        return
    began = wall_ms() - round(clock.current_time() * 1000)
    with wall_clock(lambda: began + round(clock.current_time() * 1000)):
        yield
