"""Wall clocks for tests that run in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import trio
from trio.testing import MockClock

__all__ = ["loop_time"]


def loop_time(epoch: int) -> Callable[[], int]:
    """A wall clock that stands at `epoch` (ms) until a loop in virtual time asks it, and goes on with that.

    Anybody may ask it: a clock that is injected holds for the whole process, also for clusters that other tests keep
    open, in loops and threads of their own.
    """
    followed: list[MockClock] = []

    def now() -> int:
        if not followed:
            with suppress(RuntimeError):  # asked outside of any loop
                clock = trio.lowlevel.current_clock()
                if isinstance(clock, MockClock):
                    followed.append(clock)
        return epoch + (int(followed[0].current_time() * 1000) if followed else 0)

    return now
