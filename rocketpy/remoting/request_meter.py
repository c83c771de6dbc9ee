"""RequestMeter: counts the requests of a client by address, other than sends and pulls, which their callers count.

It lives as long as the pool, while connections come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs
import trio

from rocketpy.histogram import Histogram, Latency, latency_of
from rocketpy.rates import Rate

__all__ = ["RequestFigures", "RequestMeter"]

MOST_ADDRESSES: Final = 1024
"""The largest number of addresses with counters of their own; further ones count in the total only."""


@attrs.frozen(kw_only=True)
class RequestFigures:
    """The outcomes of requests. Rates and latencies cover the last minute, counters the time since the start."""

    answered: int
    failed: int
    per_second: float
    """Answered requests per second."""
    latency: Latency


class _Cell:
    """The counters of one address."""

    __slots__ = ("answered", "failed", "latency", "rate")

    def __init__(self, born: float) -> None:
        self.answered = self.failed = 0
        self.rate, self.latency = Rate(born), Histogram()


class RequestMeter:
    """The counters of one client. It counts in the trio thread; any thread may ask."""

    def __init__(self) -> None:
        self._clock: Callable[[], float] = float
        self._rest = _Cell(0.0)
        self._cells: dict[str, _Cell] = {}

    def open(self) -> None:
        """Start to count, on the clock of the trio loop that runs here."""
        self._clock = trio.lowlevel.current_clock().current_time
        self._rest, self._cells = _Cell(self._clock()), {}

    def note_answered(self, address: str, seconds: float) -> None:
        """Count a request that was answered, whatever the answer says, after so many seconds."""
        cell, now = self._cell(address), self._clock()
        cell.answered += 1
        cell.rate.add(now, 1)
        cell.latency.add(now, (seconds,))

    def note_failed(self, address: str) -> None:
        """Count a request that had no answer."""
        self._cell(address).failed += 1

    def _cell(self, address: str) -> _Cell:
        cell = self._cells.get(address)
        if cell is None:
            if len(self._cells) >= MOST_ADDRESSES:
                return self._rest
            cell = self._cells[address] = _Cell(self._clock())
        return cell

    def total(self) -> RequestFigures:
        """All requests."""
        return self._sum((*self._cells.copy().values(), self._rest))

    def of(self, address: str) -> RequestFigures:
        """The requests to one address."""
        cell = self._cells.get(address)
        return self._sum(() if cell is None else (cell,))

    def _sum(self, cells: Iterable[_Cell]) -> RequestFigures:
        cells, now = tuple(cells), self._clock()
        return RequestFigures(
            answered=sum(cell.answered for cell in cells),
            failed=sum(cell.failed for cell in cells),
            per_second=sum(cell.rate.minute(now).per_second for cell in cells),
            latency=latency_of((cell.latency for cell in cells), now),
        )
