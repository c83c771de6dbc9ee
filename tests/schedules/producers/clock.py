"""The wall clock of a schedule, which is set forward and back."""

from __future__ import annotations

from collections.abc import Callable

import trio

from rocketpy.seams import wall_ms
from tests.checker import WallClock

__all__ = ["SetClock"]


class SetClock:
    """A wall clock that goes with the clock of the loop until it is set.

    Attributes:
        noted: How it was set, for the checker.
    """

    def __init__(self, follow: Callable[[], int]) -> None:
        self._follow = follow
        self._set_by = 0
        self._start = wall_ms() / 1000 - trio.current_time()
        self.noted = WallClock([(0.0, self._start)])

    def now_ms(self) -> int:
        """The time, ms since 1970."""
        return self._follow() + self._set_by

    def step(self, seconds: float) -> None:
        """Set it forward, or back."""
        self._set_by += round(seconds * 1000)
        self.noted.steps.append((trio.current_time(), self._start + self._set_by / 1000))
