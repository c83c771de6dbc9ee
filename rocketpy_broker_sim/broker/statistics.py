"""BrokerStatistics: how many messages came and went, and how many a second lately.

Counting is an addition. While something is counted a service keeps the sums of every second; after a second without
anything it sleeps, so that an idle broker does nothing. Plays the part of StoreStatsService and BrokerStats.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

import attrs
import trio

from rocketpy.seams import wall_ms
from rocketpy.services import ticks
from rocketpy_broker_sim.broker.tables.group_reads import GroupReads

__all__ = ["BrokerStatistics", "Totals"]

_SECONDS_KEPT = 660
"""Somewhat more than the longest time over which a rate is asked for."""


@attrs.frozen(kw_only=True)
class Totals:
    """Sums since the start of the broker."""

    put: int = 0
    """Messages that were stored."""
    found: int = 0
    """Pulls that found some."""
    missed: int = 0
    """Pulls that found none."""
    transferred: int = 0
    """Messages that were given out."""


class BrokerStatistics:
    """The sums of one broker.

    Args:
        clock: the loop's clock, in seconds.

    Attributes:
        longest_get: Seconds of the read that took longest.
        reads: What each group got of each topic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.longest_get = 0.0
        self.reads = GroupReads(clock)
        self._put = self._found = self._missed = self._transferred = 0
        self._kept: deque[tuple[float, Totals]] = deque([(-math.inf, Totals())], maxlen=_SECONDS_KEPT)
        self._idle = False  # until the service runs
        self._woken = trio.Event()
        self._day = _today()
        self._this_morning = Totals()
        self._yesterday_morning = Totals()

    # --- counting --------------------------------------------------------------------------------------

    def note_put(self, count: int) -> None:
        """Messages can be read that could not before."""
        self._put += count
        if self._idle:
            self._wake()

    def note_get(self, count: int, seconds: float = 0.0) -> None:
        """A pull was answered with so many messages, the reading of which took so long."""
        if seconds > self.longest_get:
            self.longest_get = seconds
        if count:
            self._found += 1
            self._transferred += count
        else:
            self._missed += 1
        if self._idle:
            self._wake()

    def _wake(self) -> None:
        self._idle = False
        # What was there before this began: the sums have not changed since they were kept last.
        self._kept.append((self._clock(), self._kept[-1][1]))
        self._woken.set()

    # --- asking ----------------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """The sums, now."""
        return Totals(put=self._put, found=self._found, missed=self._missed, transferred=self._transferred)

    def rate(self, which: Callable[[Totals], int], seconds: float) -> float:
        """How many a second there were in the last `seconds`, to the second."""
        since = self._clock() - seconds
        before = next((totals for time, totals in reversed(self._kept) if time <= since), Totals())
        return (which(self.totals()) - which(before)) / seconds

    def mornings(self) -> tuple[Totals, Totals]:
        """The sums at the last midnight and at the one before it."""
        self._turn_day()
        return self._this_morning, self._yesterday_morning

    # --- keeping ---------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Keep the sums of every second in which something was counted, until cancelled.

        What was counted before are records that a start found in the log: nobody has put them just now.
        """
        self._put, self._idle = 0, True
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            async for _ in ticks(1.0):
                if not self._keep():
                    break
            self._idle = True

    def _keep(self) -> bool:
        """Keep the sums; whether they have changed."""
        self._turn_day()
        totals = self.totals()
        if totals == self._kept[-1][1]:
            return False
        self._kept.append((self._clock(), totals))
        return True

    def _turn_day(self) -> None:
        """At midnight the sums of the morning become those of yesterday's; seen at the latest when somebody asks.

        A clock that is set back over midnight does not make it yesterday; one set back further was wrong before.
        """
        today = _today()
        if today - self._day in (0, -1):
            return
        totals = self._kept[-1][1]
        self._yesterday_morning = self._this_morning if today - self._day == 1 else totals
        self._this_morning = totals
        self._day = today


def _today() -> int:
    """The number of the day here; without dates of their own, whose module takes a server 1.5 ms to load."""
    now = wall_ms() // 1000
    return (now + time.localtime(now).tm_gmtoff) // 86_400
