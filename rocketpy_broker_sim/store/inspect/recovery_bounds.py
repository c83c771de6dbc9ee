"""What a store vouches for: how far its log had reached the disk, and from where on the next start builds again.

The rules are those of `recovery`: they say which differences it mends and which damage it must not hide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.checkpoint import PATH, read_checkpoint
from rocketpy_broker_sim.store.inspect.rows import translated
from rocketpy_broker_sim.store.inspect.units import is_filler
from rocketpy_broker_sim.store.inspect.walk import LogWalk

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout
    from rocketpy_broker_sim.store.inspect.units import QueueUnits
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["RecoveryBounds"]


class RecoveryBounds:
    """The bounds of a store that are known before its log is read.

    Attributes:
        checkpoint: What its checkpoint file says.
        queue_ends: Offset behind the last unit of every queue.
        units_end: Position behind the last record that has a unit.
        log_end: Up to where the log must be valid; nothing is known to be lost behind.
        replay_from: Units of records from here on are rebuilt by the next start; None when it builds none.
    """

    def __init__(self, layout: StoreLayout, units: QueueUnits) -> None:
        self._unclean = layout.unclean
        with translated(layout.storage, PATH):
            self.checkpoint = read_checkpoint(layout.storage)
        self.queue_ends: dict[QueueKey, int] = {key: units.end(key) for key in layout.queues}
        self.units_end = 0
        for key, end in self.queue_ends.items():
            unit = units.get(key, end - 1)
            if unit is not None and not is_filler(unit):
                self.units_end = max(self.units_end, unit[0] + unit[1])
        flushed = self.checkpoint.flushed
        self.log_end = flushed if flushed is not None else (0 if layout.unclean else self.units_end)
        self.replay_from = self._replay_from(layout) if layout.unclean else None

    def _replay_from(self, layout: StoreLayout) -> int:
        if self.checkpoint.settled is not None:
            return self.checkpoint.settled
        for found in reversed(layout.log.files):
            first = next(iter(LogWalk(layout.log, found.start)), None)
            record = None if first is None else first.record
            if record is not None and 0 < record.store_timestamp <= self.checkpoint.safe_timestamp:
                return found.start
        return layout.log.start

    def is_replayed(self, position: int) -> bool:
        """Whether the next start gives the record at a position its unit, whatever stands there now."""
        if not self.units_end:
            return True
        if self.replay_from is not None:
            return position >= self.replay_from
        return position >= max(self.units_end, self.checkpoint.dispatched or 0)

    def was_safe(self, damage: int, record: LogRecord) -> bool:
        """Whether damage with a record behind it had reached the disk, so that it is no torn tail.

        Args:
            damage: Where it begins.
            record: The next valid one.
        """
        flushed = self.checkpoint.flushed
        if flushed is not None:
            return damage < flushed  # wherever the record stands that follows
        if record.position >= self.units_end:
            return False
        return not self._unclean or record.store_timestamp <= self.checkpoint.log_timestamp

    def is_left_over(self, record: LogRecord, newest: int) -> bool:
        """Whether a record behind damage may be one that another broker cut off, of messages that no group knows.

        Apache's broker makes nothing zero there, but writes its next messages over it; those are newer, and have units
        as long as their queue has. Units alone do not tell: those of an old copy, or those that a power loss left, end
        before the log. In doubt a record stays, also one of the same millisecond: no broker crashes and starts so fast.
        Ours makes it zero, so that where our checkpoint counts, all that follows was written.

        Args:
            record: The next valid one.
            newest: Store time of the last valid record before the damage, ms.
        """
        if self.checkpoint.flushed is not None or record.store_timestamp >= newest:
            return False
        has_units = self.queue_ends.get((record.topic.decode(), record.queue_id), 0) > 0
        return has_units and 0 < self.units_end <= record.position
