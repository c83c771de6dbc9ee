"""TimerClock: when a message is due, even if the wall clock is set meanwhile.

The times in messages are those of the wall clock, but messages wait by the monotonic clock. The difference between the
two is taken when each message is stored, and at the start for messages of an earlier run. Slots are read by the clock
that is furthest ahead, so that no slot is read too late; messages that are not due then keep waiting.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["INSTANT_MS", "TimerClock"]

TOLERANCE_MS = 5
"""How far the wall clock may get ahead before that is noted. If it falls behind, that is noted at once, because
otherwise messages would be delivered too early."""
MOST_MARKS = 4096
_LESS_MS = 1.0
INSTANT_MS = 0.001
"""A message that is due within this time is due: rounding errors of large floats, and a clock that stands still, might
otherwise delay it forever."""
_position = itemgetter(0)


class TimerClock:
    """The clock of one timer.

    Args:
        seconds: The monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._earlier: tuple[int, ...] = ()
        self._marks: list[tuple[int, float]] = []  # from this position of the log on, wall clock less monotonic clock
        self._most = 0.0

    def restore(self, shifts: Iterable[int]) -> None:
        """Take over the shifts of earlier runs, before anything else: messages of theirs still are in such slots.

        Slots are read by a clock that is ahead by the largest of them, as they were when the messages were put there.
        """
        self._earlier = tuple(shifts)

    def elapsed(self) -> float:
        """The monotonic clock, ms."""
        return self._seconds() * 1000

    def _ahead(self) -> float:
        """How far the wall clock is ahead of the monotonic one now."""
        ahead = wall_ms() - self.elapsed()
        if not self._marks:
            self._marks.append((-1, ahead - _LESS_MS))
            self._most = ahead + max(self._earlier, default=0)
        self._most = max(self._most, ahead)
        return ahead

    def now_ms(self) -> float:
        """The time by which slots are read, ms since 1970. It never goes back."""
        self._ahead()
        return self.elapsed() + self._most + INSTANT_MS

    def note(self, position: int) -> None:
        """Note the clocks for a message that was just stored at this position of the commit log, or after it."""
        ahead, marks = self._ahead(), self._marks
        more = ahead - marks[-1][1]
        if (more > TOLERANCE_MS or more < 0) and position > marks[-1][0]:
            # A little less than now, or each millisecond of the wall clock would become a mark.
            marks.append((position, ahead - _LESS_MS))
            if len(marks) > MOST_MARKS:
                del marks[1]

    def due(self, position: int, moment: float) -> float:
        """The monotonic time of a wall time in the message that is stored at a position, ms."""
        if not self._marks:
            self._ahead()
        index = bisect_right(self._marks, position, key=_position)
        return moment - self._marks[max(0, index - 1)][1]

    def shifts(self) -> list[int]:
        """The distinct distances by which the wall clock was ever behind the clock of slots, ms; without small ones.

        Those of earlier runs are among them, as long as messages of these runs may be there.
        """
        found = {round(self._most - ahead) for _, ahead in self._marks if self._most - ahead > 2 * TOLERANCE_MS}
        return sorted(found.union(self._earlier))

    def read_time(self, due: float) -> float:
        """The time by which slots are read when the monotonic clock is at `due`."""
        return due + self._most
