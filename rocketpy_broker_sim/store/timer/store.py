"""TimerStore: messages with a time of delivery, kept in the timer's wheel and log until they are due.

The store has the position of each record and the tick in which it is due; delivery is up to others. It never loses a
message that was added: the log is written at once, and wheel and checkpoint are restored from it after a crash. It has
no tasks or threads: the services of the broker drive it. Plays the storing part of TimerMessageStore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketpy.logs import get_logger
from rocketpy.wire.bodies.timer import TimerCheckpoint
from rocketpy_broker_sim.store.disk.failure import store_error
from rocketpy_broker_sim.store.timer.checkpoint import read_timer_shifts, write_timer_checkpoint
from rocketpy_broker_sim.store.timer.log import FOLDER, TimerLog
from rocketpy_broker_sim.store.timer.recovery import TimerRecovery
from rocketpy_broker_sim.store.timer.units import DELETE, NOWHERE, PLAIN, UNIT_SIZE, Slot, TimerUnit
from rocketpy_broker_sim.store.timer.wheel import BLANK_SLOTS, SLOTS, TimerWheel

if TYPE_CHECKING:
    from rocketpy.errors import StoreError
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.steps import Steps

__all__ = ["TimerEntry", "TimerFlush", "TimerStore"]

_STEP: Final = 256
"""Units that are read between two yields."""
log = get_logger(__name__)


class TimerEntry(NamedTuple):
    """A message to be put into a slot.

    Attributes:
        tick: The slot.
        kind: PLAIN, with ROLL and DELETE.
        position: The position of its record in the commit log.
        size: Bytes of the record.
        topic_hash: Java's hash of its real topic.
    """

    tick: int
    kind: int
    position: int
    size: int
    topic_hash: int


class TimerFlush(NamedTuple):
    """The content of one flush.

    Attributes:
        checkpoint: The progress of the timer, once the disk has all of the flush.
        end: The end of the log that belongs to it.
        slots: The slots that the file of the wheel lacks.
        shifts: How far messages may be from the slots of their times, ms.
    """

    checkpoint: TimerCheckpoint
    end: int
    slots: Mapping[int, bytes]
    shifts: Sequence[int] = ()


class TimerStore:
    """Wheel, log and checkpoint of one store.

    Args:
        storage: The directory.
        config: Sizes.
        messages: Has the records.
        slots: The number of ticks ahead; that of Apache's broker, except in tests.

    Attributes:
        precision: Milliseconds of a tick.
        wheel: The slots that wait.
        log: The units in them.
        checkpoint: The checkpoint that the disk has.
        queue_offset: The first message of the timer's queue that was not taken yet.
        is_stale: Whether the checkpoint is behind the state in memory.
        shifts: How far messages of earlier runs may be from the slots of their times, ms.
    """

    def __init__(
        self, storage: Storage, config: MessageStoreConfig, messages: MessageStore, slots: int = SLOTS
    ) -> None:
        self._storage = storage
        self._messages = messages
        self.precision = config.timer_precision_ms
        self.wheel = TimerWheel(storage, slots)
        self.log = TimerLog(storage, config.mapped_file_size_timer_log)
        self.checkpoint = TimerCheckpoint()
        self.queue_offset = 0
        self.is_stale = False
        self.shifts: list[int] = []
        self._from = 0  # no tick before it is read again

    # --- opening and closing

    def load(self, now_ms: int) -> None:
        """Read the files, and repair what a crash has left.

        Args:
            now_ms: The time now.

        Raises:
            StoreError: The disk refused.
            StoreCorruptError: A file is damaged in a way that must not be hidden.
        """
        recovery = TimerRecovery(self._storage, self.wheel, self.log, self._messages, self.precision)
        try:
            found = recovery.run(now_ms)
            self.shifts = [] if self.wheel.oldest() is None else read_timer_shifts(self._storage)
        except OSError as exc:
            raise store_error(exc, "opening the timer", self._storage.describe(FOLDER)) from exc
        self.checkpoint, self.queue_offset, self._from = found
        self.is_stale = self.wheel.has_changed or self.queue_offset != self.checkpoint.last_timer_queue_offset

    def close(self) -> None:
        """Close the files as they are."""
        self.log.close()

    # --- writing

    def tick_of(self, time_ms: float) -> int:
        """The tick that a time is in."""
        return int(time_ms // self.precision)

    def add(self, entries: Sequence[TimerEntry], now_ms: int) -> None:
        """Put messages into their slots; they are written when this returns.

        Args:
            entries: The messages, in the order of the timer's queue.
            now_ms: The beginning of the current tick.

        Raises:
            StoreError: The disk refused; none of them was added.
        """
        changed: dict[int, Slot] = {}
        for entry in entries:
            slot = changed.get(entry.tick) or self.wheel.get(entry.tick)
            changed[entry.tick] = self._chained(slot, entry, now_ms)
        self._commit()
        for slot in changed.values():
            self.wheel.put(slot)
        self.is_stale = self.is_stale or bool(changed)

    def _chained(self, slot: Slot | None, entry: TimerEntry, now_ms: int) -> Slot:
        """Collect the unit of an entry. Returns the slot that includes it."""
        tick, kind, position, size, topic_hash = entry
        due = tick * self.precision
        written = min(now_ms, due)  # a slot whose tick has passed may still be written to
        previous = NOWHERE if slot is None else slot.last
        at = self.log.gather(TimerUnit(previous, kind, written, due - written, position, size, topic_hash))
        more = -1 if kind & DELETE else 1
        return (
            Slot(tick, at, at, more) if slot is None else Slot(tick, slot.first, at, slot.messages + more, slot.magic)
        )

    def _commit(self) -> None:
        try:
            self.log.commit()
        except OSError as exc:
            raise store_error(exc, "writing to the timer log", self._storage.describe(FOLDER)) from exc

    def replace(self, tick: int, units: Sequence[TimerUnit], now_ms: int) -> None:
        """Leave only these units in a slot: its other messages have been delivered.

        The first of the new units points to no other, so that the slot has no more units from now on.

        Args:
            tick: The slot; it has waiting messages.
            units: The units that are left, at least one.
            now_ms: The beginning of the current tick.

        Raises:
            StoreError: The disk refused; the slot is as it was.
        """
        slot: Slot | None = None
        for unit in units:
            entry = TimerEntry(tick, unit.kind, unit.position, unit.size, unit.topic_hash)
            slot = self._chained(slot, entry, now_ms)
        self._commit()
        if slot is not None:
            self.wheel.put(slot)
            self.is_stale = True

    def drop(self, tick: int) -> None:
        """Forget a slot whose messages are all done."""
        self.wheel.drop(tick)
        self.is_stale = True

    def take_up_to(self, queue_offset: int) -> None:
        """Note that all messages of the timer's queue before an offset are in slots, or done."""
        if queue_offset != self.queue_offset:
            self.queue_offset = queue_offset
            self.is_stale = True

    def mark_newest(self, position: int, size: int, now_ms: int) -> None:
        """Make the last unit point to the newest message of the timer's queue, because that shows the progress.

        The unit is that of a recall; it has no effect, because its message recalls nothing.

        Raises:
            StoreError: The disk refused.
        """
        tick = self.tick_of(now_ms)
        slot = self._chained(self.wheel.get(tick), TimerEntry(tick, PLAIN | DELETE, position, size, 0), now_ms)
        self._commit()
        self.wheel.put(slot._replace(messages=slot.messages + 1))
        self.is_stale = True

    def last_unit(self) -> TimerUnit | None:
        """The unit that was written last."""
        end, size = self.log.end, self.log.row.file_size
        if not end:
            return None
        return self._read(end - UNIT_SIZE if end % size else end - size + self.log.units_end - UNIT_SIZE)

    # --- reading

    def read_ms(self, now_ms: float) -> int:
        """The first tick that is still to be read: the first slot with waiting messages, or the current tick."""
        oldest = self.wheel.oldest()
        now = self.tick_of(now_ms)
        return max(self._from, now if oldest is None else min(oldest, now)) * self.precision

    def units_steps(self, slot: Slot) -> Steps[list[TimerUnit]]:
        """The current units of a slot, in the order in which they were added.

        Raises:
            StoreError: The disk refused.
        """
        found: list[TimerUnit] = []
        position = slot.last
        while position != NOWHERE and position >= self.log.start:
            unit = self._read(position)
            if unit is None or self.tick_of(unit.due_ms) != slot.tick or unit.previous >= position:
                log.error("the timer log is damaged at %d: searching for the units of slot %d", position, slot.tick)
                return (yield from self._search_steps(slot))
            found.append(unit)
            position = unit.previous
            if not len(found) % _STEP:
                yield
        found.reverse()
        return found

    def _search_steps(self, slot: Slot) -> Steps[list[TimerUnit]]:
        """All units of a slot that a search of the log finds."""
        found: list[TimerUnit] = []
        begin = self.log.unit_at(max(self.log.start, min(slot.first, slot.last)))
        try:
            for number, (position, unit) in enumerate(self.log.scan(begin, self.log.end)):
                if position > slot.last:
                    break
                if unit is not None and self.tick_of(unit.due_ms) == slot.tick:
                    if unit.previous == NOWHERE:
                        found.clear()
                    found.append(unit)
                if not number % _STEP:
                    yield
        except OSError as exc:
            raise self._unreadable(exc) from exc
        return found

    def _read(self, position: int) -> TimerUnit | None:
        try:
            return self.log.read(position)
        except OSError as exc:
            raise self._unreadable(exc) from exc

    def _unreadable(self, exc: OSError) -> StoreError:
        return store_error(exc, "reading the timer log", self._storage.describe(FOLDER))

    # --- the disk

    def prepare(self, now_ms: float, shifts: Sequence[int] = ()) -> TimerFlush:
        """Determine the content of the next `flush`. The disk must have the messages up to now before that.

        Args:
            now_ms: The time by which slots are read.
            shifts: How far messages may be from the slots of their times, ms.
        """
        before, read = self.checkpoint, self.read_ms(now_ms)
        version = before.data_version
        if (read, self.queue_offset) != (before.last_read_time_ms, before.last_timer_queue_offset):
            version = version.next_version()
        checkpoint = TimerCheckpoint(
            last_read_time_ms=read,
            last_timer_log_flush_pos=self.log.end,
            last_timer_queue_offset=self.queue_offset,
            master_timer_queue_offset=self.queue_offset,
            data_version=version,
        )
        self.is_stale = False
        return TimerFlush(checkpoint, self.log.end, self.wheel.take_changes(), shifts)

    def flush(self, what: TimerFlush) -> None:
        """Return when the disk has the log, then the wheel, then the checkpoint. For a thread.

        Raises:
            StoreError: The disk refused; call `give_back`.
        """
        try:
            self.log.flush(what.end)
            self.wheel.write(what.slots)
            write_timer_checkpoint(self._storage, what.checkpoint, what.shifts)
        except OSError as exc:
            raise store_error(exc, "flushing the timer", self._storage.describe(FOLDER)) from exc
        self.checkpoint = what.checkpoint

    def give_back(self, what: TimerFlush) -> None:
        """Put back the content of a flush that failed or was cancelled: the next one includes it."""
        self.wheel.give_back(what.slots)
        self.is_stale = True

    def take_expired(self) -> MappedFile | None:
        """Take the oldest file out of the log if it is no longer needed; otherwise returns None.

        Raises:
            StoreError: The disk refused.
        """
        row = self.log.row
        first = next(iter(row.oldest(self.checkpoint.last_timer_log_flush_pos, 1)), None)
        if first is None or any(slot.first < first.end for slot in self.wheel.slots.values()):
            return None
        unit = self._read(first.start + self.log.units_end - UNIT_SIZE)
        if unit is not None and unit.position >= self._messages.reads.log_start:
            return None
        return row.take_first(first.end)

    def delete_file(self, file: MappedFile) -> None:
        """Delete a file that was taken out of the log. For a thread.

        Raises:
            StoreError: The disk refused; the file is found again at the next start.
        """
        try:
            file.delete()
            self._storage.sync_dir(FOLDER)
        except OSError as exc:
            raise store_error(exc, "deleting an expired file", self._storage.describe(file.path)) from exc

    @property
    def is_used(self) -> bool:
        """Whether a message was ever in the timer."""
        return self.is_stale or self.queue_offset > 0 or self.checkpoint.last_read_time_ms > 0

    @property
    def furthest(self) -> int:
        """The largest distance of a slot from now, ms: the limit of units, and of the room in the wheel."""
        return min((SLOTS - BLANK_SLOTS) * self.precision, (2**31 - 1) // self.precision * self.precision)
