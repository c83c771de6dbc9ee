"""Whether log, queues and index of a store agree: one pass over the log, with memory that does not grow with it.

What a crash leaves and the next start mends is told apart from damage by the rules of recovery. A store that is in use
may be checked: it only seems not to have stopped in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from rocketpy_broker_sim.store.inspect.findings import DAMAGE, RECOVERED, Finding, file_findings
from rocketpy_broker_sim.store.inspect.index_check import IndexCheck
from rocketpy_broker_sim.store.inspect.queue_check import QueueCheck
from rocketpy_broker_sim.store.inspect.recovery_bounds import RecoveryBounds
from rocketpy_broker_sim.store.inspect.units import QueueUnits
from rocketpy_broker_sim.store.inspect.walk import LogEntry, LogWalk

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["Check", "CheckCounts"]

MAX_REGIONS = 10_000
"""Damaged regions that are remembered to explain units that lead there."""


@attrs.define
class CheckCounts:
    """What a check went over and found."""

    messages: int = 0
    bytes: int = 0
    queues: int = 0
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    damage: int = 0
    recovered: int = 0


class Check:
    """One check of a store.

    Attributes:
        counts: Of what it went over; complete when `findings` has ended.
        log_end: Position behind the last valid record, when it has ended.
    """

    def __init__(self, layout: StoreLayout, *, progress: Callable[[int], None] | None = None) -> None:
        """Nothing is read yet.

        Args:
            layout: The store.
            progress: Called now and then with the position that was reached in the log.
        """
        self._layout = layout
        self._progress = progress
        self.counts = CheckCounts(queues=len(layout.queues), index_files=len(layout.index))
        self.log_end = layout.log.start
        self._regions: list[tuple[int, int]] = []
        self._open: LogEntry | None = None
        """Damage, or the end of a file, of which it is not known yet whether a record follows."""

    def findings(self) -> Iterator[Finding]:
        """Go over the store and yield what is odd, as it is found."""
        for finding in self._all():
            if finding.kind == DAMAGE:
                self.counts.damage += 1
            elif finding.kind == RECOVERED:
                self.counts.recovered += 1
            yield finding

    def _all(self) -> Iterator[Finding]:
        layout = self._layout
        # Queues before the log, which only grows: what they know of is then there.
        units = QueueUnits(layout)
        bounds = RecoveryBounds(layout, units)
        queues = QueueCheck(layout, units, bounds)
        index = IndexCheck(layout, bounds.checkpoint)
        yield from file_findings(layout.log, "log", unclean=layout.unclean)
        for row in layout.queues.values():
            yield from file_findings(row, "queue", unclean=layout.unclean)
        yield from self._log(bounds, queues, index)
        yield from queues.findings(self.log_end, self._regions)
        yield from index.findings()
        self.counts.units, self.counts.index_entries = queues.units, index.entries

    def _log(self, bounds: RecoveryBounds, queues: QueueCheck, index: IndexCheck) -> Iterator[Finding]:
        for entry in LogWalk(self._layout.log, progress=self._progress):
            if entry.record is not None:
                if self._open is not None:
                    hole = self._closed(self._open, entry.record, bounds)
                    yield hole
                    if hole.kind == RECOVERED:
                        break  # the log ends there: what follows is no part of it any more
                self.counts.messages += 1
                self.counts.bytes += entry.size
                queues.see(entry.record)
                index.see(entry.record)
            if entry.kind in ("message", "blank"):
                if self._open is None or entry.record is not None:
                    self.log_end = entry.position + entry.size
            elif self._open is None:
                self._open = entry
        yield from self._end(bounds)

    def _closed(self, entry: LogEntry, follower: LogRecord, bounds: RecoveryBounds) -> Finding:
        """Judge damage behind which a valid record stands."""
        self._open = None
        size = follower.position - entry.position
        if len(self._regions) < MAX_REGIONS:
            self._regions.append((entry.position, follower.position))
        reason = entry.reason or "nothing is written where records should be"
        if bounds.was_safe(entry.position, follower):
            return _log_finding(entry, DAMAGE, f"{reason}; the next valid record is at {follower.position}", size)
        return _log_finding(
            entry, RECOVERED, f"{reason}; cut there at the next start, as nothing behind was safe", size
        )

    def _end(self, bounds: RecoveryBounds) -> Iterator[Finding]:
        """Judge the end of the log: damage behind which nothing stands, or an end that comes too early."""
        end = self._open
        torn = end is not None and end.kind == "damage"
        if self.log_end < bounds.log_end:
            lost = bounds.log_end - self.log_end
            text = f"the log ends at {self.log_end}, though it had reached the disk up to {bounds.log_end}"
            file = self._layout.log.find(self.log_end)
            yield Finding(
                kind=DAMAGE,
                part="log",
                path=self._layout.log.folder if file is None else file.path,
                position=self.log_end,
                offset=None if file is None else self.log_end - file.start,
                size=lost,
                text=f"{text}; {end.reason}" if end is not None and torn else text,
            )
        elif end is not None and torn:
            yield _log_finding(end, RECOVERED, f"{end.reason}: a torn end, cut off at the next start", end.size)


def _log_finding(entry: LogEntry, kind: str, text: str, size: int) -> Finding:
    return Finding(
        kind=kind,
        part="log",
        path=entry.file.path,
        position=entry.position,
        offset=entry.position - entry.file.start,
        size=size,
        text=text,
    )
