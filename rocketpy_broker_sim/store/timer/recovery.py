"""Opening the timer: the wheel is read from its file, and brought up to date from the log.

The checkpoint says up to which position the disk had the log, and that the wheel has all of those units. Units after
that position count as long as each points to a message of the timer's topic, and no message is left out. A power loss
may have destroyed the others: they are made again from the topic, which still has the messages. Plays the part of
recover, recoverAndRevise and reviseQueueOffset in TimerMessageStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import MessageDecodeError, StoreError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.timer import TimerCheckpoint
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.store.timer.checkpoint import read_timer_checkpoint
from rocketpy_broker_sim.store.timer.units import DELETE, NOWHERE, UNIT_SIZE, Slot, TimerUnit
from rocketpy_broker_sim.store.timer.wheel import BLANK_SLOTS, SLOTS, TimerWheel

if TYPE_CHECKING:
    from collections.abc import Container

    from rocketpy.message import MessageExt
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.timer.log import TimerLog

__all__ = ["Recovered", "TimerRecovery"]

log = get_logger(__name__)


class Recovered(NamedTuple):
    """Where the timer continues.

    Attributes:
        checkpoint: The content of the checkpoint file.
        queue_offset: The first message of the timer's queue that is in no slot.
        from_tick: The first tick that may be read.
    """

    checkpoint: TimerCheckpoint
    queue_offset: int
    from_tick: int


class TimerRecovery:
    """Opens the files of one timer.

    Args:
        storage: The directory.
        wheel: Takes the slots.
        timer_log: The log; not loaded yet.
        messages: Has the records; loaded before.
        precision: Milliseconds of a tick.
    """

    def __init__(
        self, storage: Storage, wheel: TimerWheel, timer_log: TimerLog, messages: MessageStore, precision: int
    ) -> None:
        self._storage = storage
        self._wheel = wheel
        self._log = timer_log
        self._messages = messages
        self._precision = precision
        self._begin = 0
        self._begin_after = 0
        self._flushed = 0
        self._queue_offset = 0

    def run(self, now_ms: int) -> Recovered:
        """Open them.

        Raises:
            OSError: The disk refused.
            StoreCorruptError: A file is damaged in a way that must not be hidden.
        """
        found = read_timer_checkpoint(self._storage)
        checkpoint = found or TimerCheckpoint()
        now = now_ms // self._precision
        read = checkpoint.last_read_time_ms // self._precision
        self._begin = read or now - SLOTS + BLANK_SLOTS
        # What was added after the checkpoint waits, even before the tick that it says: the clock was set back then.
        self._begin_after = 0 if read and self._messages.was_unclean else self._begin
        # If the clock was set back, it comes again to ticks that are over.
        over = range(min(now, self._begin), self._begin)
        self._flushed = flushed = checkpoint.last_timer_log_flush_pos
        has_wheel = self._wheel.load(self._begin, over, is_new=self._messages.was_unclean and not flushed)
        self._log.row.load(safe=flushed if self._messages.was_unclean else None)
        self._queue_offset = max(checkpoint.last_timer_queue_offset, self._messages.reads.min_offset(TIMER_TOPIC, 0))
        end = self._read_log(flushed, has_wheel=has_wheel)
        if self._messages.was_unclean:
            self._log.row.cut(end, keep_first=True)
        self._log.reset(end, min(flushed, end))
        self._search_lost(end)
        if self._log.end < flushed:
            self._queue_offset = min(self._queue_offset, self._behind_units())
        oldest = self._wheel.oldest()
        first = over.start if oldest is None else min(over.start, oldest)
        if has_wheel:
            self._wheel.empty(range(first, over.start))
        return Recovered(checkpoint, self._fitting(self._queue_offset), first)

    # --- the log

    def _read_log(self, flushed: int, *, has_wheel: bool) -> int:
        """Bring the wheel up to date. Returns the end of the log."""
        row = self._log.row
        if not row.files:
            return 0
        begin = self._log.unit_at(min(max(flushed, row.start), row.end)) if has_wheel else row.start
        end = begin
        for position, unit in self._log.scan(begin):
            if unit is None or (position >= flushed and not self._leads_somewhere(unit)):
                break
            self._apply(position, unit)
            end = position + UNIT_SIZE
        return end

    def _leads_somewhere(self, unit: TimerUnit) -> bool:
        """Whether a unit after the checkpoint belongs to a message; that message is then noted as taken.

        After a crash, it does not count if the message before it has no unit. That message may have been delivered at
        once, and its copy may be lost. So it is taken again, and so are those after it.
        """
        if unit.position < self._messages.reads.log_start:
            return True
        record = self._record(unit.position, unit.size)
        if record is None:
            return False
        if record.queue_offset > self._queue_offset and self._messages.was_unclean:
            return False
        self._queue_offset = max(self._queue_offset, record.queue_offset + 1)
        return True

    def _record(self, position: int, size: int | None = None) -> MessageExt | None:
        """The message of the timer's topic at a position of the commit log, of this size; None if there is none."""
        try:
            data = self._messages.reads.read(position)
            record = None if data is None or size not in (None, len(data)) else decode_record(data)
        except (StoreError, MessageDecodeError):
            return None
        return record if record is not None and record.topic == TIMER_TOPIC else None

    def _apply(self, position: int, unit: TimerUnit, only: Container[int] | None = None) -> None:
        """Put a unit into its slot, unless the slot has it."""
        tick = unit.due_ms // self._precision
        if tick < (self._begin if position < self._flushed else self._begin_after) or (
            only is not None and tick not in only
        ):
            return
        slot = self._wheel.get(tick)
        more = -1 if unit.kind & DELETE else 1
        if slot is None or (unit.previous == NOWHERE and slot.last < position):
            self._wheel.put(Slot(tick, position, position, more))
        elif slot.last < position:
            self._wheel.put(Slot(tick, slot.first, position, slot.messages + more, slot.magic))

    # --- what does not fit

    def _search_lost(self, end: int) -> None:
        """Make slots again that point beyond the end of the log."""
        lost = {tick: slot for tick, slot in self._wheel.slots.items() if slot.last >= end}
        if not lost:
            return
        log.warning("the timer log ends at %d, before %d slots of the wheel: they are rebuilt", end, len(lost))
        for tick in lost:
            self._wheel.drop(tick)
        begin = min(slot.first for slot in lost.values())
        if any(slot.first >= end for slot in lost.values()):  # its chain was written again, behind the end: all of it
            begin = self._log.start
        begin = max(self._log.start, begin)
        for position, unit in self._log.scan(self._log.unit_at(begin), end):
            if unit is not None:
                self._apply(position, unit, lost)

    def _behind_units(self) -> int:
        """The first message that has no unit in a log that has lost its end.

        The slots of those after it may be lost, too. So they are taken again, even if they were delivered before.
        """
        newest = max((unit.position for _, unit in self._log.scan(self._log.start, self._log.end) if unit), default=-1)
        record = self._record(newest)
        offset = self._messages.reads.min_offset(TIMER_TOPIC, 0) if record is None else record.queue_offset + 1
        log.warning(
            "the timer log ends at %d, though it had reached the disk up to %d: the messages from offset %d of the "
            "timer's queue on are taken again",
            self._log.end,
            self._flushed,
            offset,
        )
        return offset

    def _fitting(self, offset: int) -> int:
        """The offset, limited to those of the queue."""
        reads = self._messages.reads
        low, high = reads.min_offset(TIMER_TOPIC, 0), reads.max_offset(TIMER_TOPIC, 0)
        fitting = min(max(offset, low), high)
        if fitting != offset:
            log.warning(
                "the timer continues at offset %d of its queue, which is not within %d and %d", offset, low, high
            )
        return fitting
