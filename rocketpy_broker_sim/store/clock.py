"""StoredClock: which time records are stored with, and how long ago each was stored, whatever the wall clock does.

Stored times follow the wall clock and never fall. When it was set back they stand until it comes level or a second has
passed, and then go on with the monotonic clock; when it was set forward, or the machine slept, they follow at once.
Delays do not go by stored times: the monotonic clock says how long a message has waited.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.seams import wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StoredClock"]

STAND_MS = 1_000
"""How long stored times stand at most when the wall clock is behind them."""
TOLERANCE_MS = 5
"""How far stored times may get ahead of the monotonic clock before that is noted. If they fall behind, that is noted at
once, because otherwise messages would be delivered too early."""
WHOLE_MS = 1.0
"""Stored times are whole milliseconds: a message may have been stored that much later than its time says."""
MOST_MARKS = 4_096
_position = attrgetter("position")


class _Mark(NamedTuple):
    """From this position of the log on, stored time and the monotonic clock go side by side."""

    position: int
    """Bytes from the start of the log."""
    stored: int
    """The stored time there, ms since 1970."""
    elapsed: float
    """The monotonic clock there, ms, with WHOLE_MS added."""


class StoredClock:
    """The clock of one store.

    Args:
        seconds: the monotonic clock. Without one stored times stand for as long as the wall clock is behind them, and
            `waited_ms` is always None.

    Attributes:
        newest: The stored time that was given last, ms since 1970; a store sets it to that of its newest record.
    """

    def __init__(self, seconds: Callable[[], float] | None = None) -> None:
        self._seconds = seconds
        self.newest = 0
        self._behind_since: float | None = None
        self._stood_at = 0
        self._marks: list[_Mark] = []
        self._even_from: tuple[int, float] | None = None

    # --- stored times

    def now_ms(self) -> int:
        """The time that a record which is stored now gets."""
        now = wall_ms()
        if now >= self.newest:
            self.newest = now
            self._behind_since = None
        elif self._seconds is not None:
            self._stand()
        return self.newest

    def _stand(self) -> None:
        """The wall clock is behind: stand for a while, then go on."""
        elapsed = self._elapsed()
        if self._behind_since is None:
            self._behind_since, self._stood_at = elapsed, self.newest
        gone = int(elapsed - self._behind_since) - STAND_MS
        self.newest = max(self.newest, self._stood_at + gone)

    # --- waiting

    def mark(self, position: int, stored: int) -> None:
        """A record that will wait is being stored at this position of the log, with this time."""
        if self._seconds is None:
            return
        marks, elapsed = self._marks, self._elapsed()
        while marks and marks[-1].position >= position:  # of records that were taken back, as the disk refused them
            marks.pop()
        ahead = stored - marks[-1].stored - (elapsed - marks[-1].elapsed) if marks else 0.0
        if not marks or ahead > TOLERANCE_MS or ahead < 0:
            marks.append(_Mark(position, stored, elapsed + WHOLE_MS))
            if len(marks) > MOST_MARKS:
                del marks[0]

    def waited_ms(self, position: int, stored: int) -> float | None:
        """How long ago the record at a position was stored, at least; None where that was in an earlier run, or too
        long ago."""
        index = bisect_right(self._marks, position, key=_position)
        if not index:
            return None
        mark = self._marks[index - 1]
        return self._elapsed() - mark.elapsed - (stored - mark.stored)

    def even_ms(self) -> float:
        """The wall clock when this was first asked, gone on without a step: for what an earlier run stored."""
        if self._seconds is None:
            return wall_ms()
        elapsed = self._elapsed()
        if self._even_from is None:
            self._even_from = wall_ms(), elapsed
        wall, began = self._even_from
        return wall + elapsed - began

    def _elapsed(self) -> float:
        """The monotonic clock, ms."""
        return 0.0 if self._seconds is None else self._seconds() * 1000
