"""Flow: counts messages and bytes in one direction over the last minute, hour and day. Pure: the caller passes times.

The windows are those of Java: a minute in steps of 10 s, an hour in steps of 10 min, a day in steps of an hour.
Together they take 1.3 KB, whatever the counts. Plays the part of StatsItem.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

__all__ = ["DAY", "HOUR", "MINUTE", "Amount", "Flow"]


class Amount(NamedTuple):
    """An amount that was counted.

    Attributes:
        messages: The number of messages.
        size: Bytes of their records.
        calls: The number of pulls that found messages; for puts, the number of messages.
        micros: Microseconds that these calls took in total.
    """

    messages: int = 0
    size: int = 0
    calls: int = 0
    micros: int = 0


_FIELDS = len(Amount._fields)
_STEPS = ((10.0, 6), (600.0, 6), (3600.0, 24))
"""The seconds of a step, and the number of steps of a window."""
MINUTE, HOUR, DAY = range(3)
"""The windows."""
_BEGINS = (0, 7 * _FIELDS, 14 * _FIELDS)
"""Where the steps of each window begin. Each window has one more step, which is being filled."""
_ALL = 39 * _FIELDS


class Flow:
    """The windows of one flow.

    Args:
        now: the time in seconds, on the same clock as all other times.
    """

    __slots__ = ("_born", "_newest", "_sums")

    def __init__(self, now: float) -> None:
        self._born = now
        self._sums = array("q", bytes(8 * _ALL))
        self._newest = [int(now // width) for width, _ in _STEPS]

    def add(self, now: float, amount: Amount) -> None:
        """Add an amount to all windows."""
        sums = self._sums
        for window in (MINUTE, HOUR, DAY):
            at = self._turn(window, now)
            for field, value in enumerate(amount, at):
                sums[field] += value

    def _turn(self, window: int, now: float) -> int:
        """Clear the steps that have begun since the last call. Returns where the newest step is kept."""
        width, number = _STEPS[window]
        current, newest, begin = int(now // width), self._newest[window], _BEGINS[window]
        for step in range(max(newest, current - number - 1) + 1, current + 1):
            at = begin + step % (number + 1) * _FIELDS
            self._sums[at : at + _FIELDS] = array("q", bytes(8 * _FIELDS))
        self._newest[window] = max(newest, current)
        return begin + self._newest[window] % (number + 1) * _FIELDS

    def over(self, window: int, now: float) -> tuple[Amount, float]:
        """The amount in a window, and the seconds it covers: at least a step, at most a step more than the window."""
        self._turn(window, now)
        width, number = _STEPS[window]
        begin, end = _BEGINS[window], _BEGINS[window] + (number + 1) * _FIELDS
        sums = Amount(*(sum(self._sums[begin + field : end : _FIELDS]) for field in range(_FIELDS)))
        began = max(self._born, (self._newest[window] - number) * width)
        return sums, max(now - began, width)
