"""TimerClock: when a message is due, whatever the wall clock does meanwhile.

Messages say when they are due by the wall clock, and wait by the monotonic one: by the difference between the two at
the time when each was stored. Where an earlier run has stored it, that is the difference at the start. Slots are read
by the clock that is furthest ahead of those, so that none is read too late; what is not due by then goes on waiting.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["INSTANT_MS", "TimerClock"]

TOLERANCE_MS = 5
"""How far the wall clock may get ahead before that is noted. That it falls behind is noted at once, or messages would
be delivered too early."""
MOST_MARKS = 4096
_LESS_MS = 1.0
INSTANT_MS = 0.001
"""What is due that soon is due: differences of large floats, and a clock that stands may never get over them."""
_position = itemgetter(0)


class TimerClock:
    """The clock of one timer.

    Args:
        seconds: The monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._marks: list[tuple[int, float]] = []  # from this position of the log on, wall clock less monotonic clock
        self._most = 0.0

    def elapsed(self) -> float:
        """The monotonic clock, ms."""
        return self._seconds() * 1000

    def _ahead(self) -> float:
        """How far the wall clock is ahead of the monotonic one now."""
        ahead = wall_ms() - self.elapsed()
        if not self._marks:
            self._marks.append((-1, ahead - _LESS_MS))
            self._most = ahead
        self._most = max(self._most, ahead)
        return ahead

    def now_ms(self) -> float:
        """The time by which slots are read, ms since 1970. It never falls."""
        self._ahead()
        return self.elapsed() + self._most + INSTANT_MS

    def note(self, position: int) -> None:
        """A message that will wait has just been stored at this position of the commit log, or behind it."""
        ahead, marks = self._ahead(), self._marks
        more = ahead - marks[-1][1]
        if (more > TOLERANCE_MS or more < 0) and position > marks[-1][0]:
            # A little less than now, or the milliseconds of the wall clock would be marks, one after the other.
            marks.append((position, ahead - _LESS_MS))
            if len(marks) > MOST_MARKS:
                del marks[1]

    def due(self, position: int, moment: float) -> float:
        """When the monotonic clock is at a moment that the message stored at a position means, ms."""
        if not self._marks:
            self._ahead()
        index = bisect_right(self._marks, position, key=_position)
        return moment - self._marks[max(0, index - 1)][1]

    def shifts(self) -> list[int]:
        """How far behind the clock that slots are read by the wall clock ever was, each once, ms; no small ones."""
        return sorted({round(self._most - ahead) for _, ahead in self._marks if self._most - ahead > 2 * TOLERANCE_MS})

    def read_time(self, due: float) -> float:
        """The time by which slots are read when the monotonic clock is at `due`."""
        return due + self._most
