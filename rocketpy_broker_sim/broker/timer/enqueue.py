"""From the timer's topic into the wheel: the first half of the timer.

Messages are taken in the order of the topic. Each is put into its slot, or delivered at once if it is already due. The
progress is noted only after the messages are written, so that a crash repeats some of the work and loses nothing. Plays
the part of TimerEnqueueGetService and TimerEnqueuePutService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketpy.errors import MessageDecodeError
from rocketpy.logs import get_logger, quote
from rocketpy.message import PropertyName
from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.broker.timer.delivery import NEVER_ENQUEUED, Delivery
from rocketpy_broker_sim.broker.timer.records import TimerRecord, timer_records
from rocketpy_broker_sim.broker.timer.times import out_ms
from rocketpy_broker_sim.broker.timer.waiting import LATE, DueMessage
from rocketpy_broker_sim.store.put_result import GetMessageStatus
from rocketpy_broker_sim.store.timer.store import TimerEntry
from rocketpy_broker_sim.store.timer.units import DELETE, PLAIN, ROLL

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.timer.parts import TimerParts

__all__ = ["Enqueue"]

MOST_BYTES: Final = 256 * 1024
"""Bytes of the messages that are taken at a time."""
log = get_logger(__name__)


class Enqueue:
    """Takes messages out of the timer's topic.

    Args:
        parts: Where they go.
        delivery: Delivers those that are due.

    Attributes:
        taken: The number of messages taken since the start.
    """

    def __init__(self, parts: TimerParts, delivery: Delivery) -> None:
        self._parts = parts
        self._delivery = delivery
        self._entries: list[TimerEntry] = []
        self._opened: list[DueMessage] = []
        self._recalls: list[tuple[int, TimerRecord, TimerEntry]] = []
        self._counted: list[tuple[str, int]] = []
        # For slots that have passed, until the backlog is taken: where their messages went, and the recalls for them.
        self._late: dict[int, set[int]] = {}
        self._vain: dict[int, list[TimerRecord]] = {}
        # What was added to these two, and no progress is noted for yet.
        self._new_late: list[tuple[int, int]] = []
        self._new_vain: list[int] = []
        self.taken = 0

    @property
    def behind(self) -> int:
        """The number of messages in the topic that have not been taken."""
        return max(0, self._parts.store.reads.max_offset(TIMER_TOPIC, 0) - self._parts.timers.queue_offset)

    def take(self, most: int) -> bool:
        """Take up to `most` messages. Returns False if there are messages and none can be taken now.

        Raises:
            StoreError: the disk refused; nothing is lost, because the progress was not noted.
        """
        parts = self._parts
        offset = parts.timers.queue_offset
        self._give_up_new()
        found = parts.store.reads.get(TIMER_TOPIC, 0, offset, most, max_bytes=MOST_BYTES)
        if found.status is not GetMessageStatus.FOUND:
            if found.next_begin_offset > offset:
                log.warning("the timer continues at offset %d of its queue, not at %d", found.next_begin_offset, offset)
                parts.timers.take_up_to(found.next_begin_offset)
            return True
        parts.clock.note(_first_position(found.records))
        try:
            reached, is_through = self._take_all(found.records, offset)
        except BaseException:
            self._gathered()  # no progress is noted, so they are taken again
            raise
        self._finish(reached)
        return is_through

    def _take_all(self, records: bytes, offset: int) -> tuple[int, bool]:
        """Take the messages of a read. Returns the offset reached, and whether all were taken."""
        reached = offset
        try:
            for record in timer_records(records):
                if not self._take(record):
                    return reached, False
                reached = record.queue_offset + 1
        except MessageDecodeError as exc:
            if reached == offset:
                log.error("the timer message at %d is damaged and is skipped: %s", offset, exc)
                reached += 1
        return reached, True

    def forget_passed(self) -> None:
        """Forget slots that have passed, once the backlog is taken: nothing more can come for them."""
        if not self._late and not self._vain:
            return
        parts = self._parts
        oldest = parts.timers.wheel.oldest()
        is_taken = not self.behind and not parts.store.is_behind
        if is_taken and (oldest is None or oldest >= parts.now_tick()):
            self._late.clear()
            self._vain.clear()
            self._new_late, self._new_vain = [], []

    def _give_up_new(self) -> None:
        """Forget what an attempt has added that failed: its messages are taken again."""
        for tick, goal in self._new_late:
            self._late[tick].discard(goal)
        for tick in reversed(self._new_vain):
            self._vain[tick].pop()
        self._new_late, self._new_vain = [], []

    # --- one message

    def _take(self, record: TimerRecord) -> bool:
        """Collect the entry of a message, or deliver the message. Returns False if that is not possible now."""
        slot = out_ms(record.properties)
        if slot is None:
            log.error("a timer message without a time of delivery is skipped: %s", quote(str(record.properties)))
            return True
        parts = self._parts
        now = parts.now_tick()
        tick, rolls = self._rolled(parts.timers.tick_of(slot), now)
        if PropertyName.TIMER_DEL_UNIQUE_KEY in record.properties:
            return self._recall(record, tick, now, rolls=rolls)
        if rolls:
            return self._add(record, tick, PLAIN | ROLL, parts.slot_due(tick))
        due = parts.due(record, slot)
        if tick >= now:
            return self._add(record, tick, PLAIN, due)
        if due > parts.clock.elapsed():
            return self._add(record, parts.timers.tick_of(parts.clock.read_time(due)), PLAIN, due)
        if record.stored_ms >= slot and PropertyName.TIMER_ROLL_TIMES not in record.properties:
            return self._deliver(record, now)
        # It may have been recalled before its time: the recall comes after it, and is looked for in this slot.
        goal = now if parts.timers.wheel.get(tick) is None else tick
        if not self._add(record, goal, PLAIN, due, late=True):
            return False
        if goal == now:
            self._put_vain(tick, now)
        return True

    def _put_vain(self, tick: int, now: int) -> None:
        """Collect the recalls for a slot that has passed, with the first message that goes to the one of now instead.

        Recalls that are taken after that look for all slots of such messages by themselves.
        """
        goals = self._late.setdefault(tick, set())
        if now not in goals:
            goals.add(now)
            self._new_late.append((tick, now))
            for recall in self._vain.get(tick, ()):
                self._put_recall(recall, now, PLAIN | DELETE)

    def _rolled(self, tick: int, now: int) -> tuple[int, bool]:
        """The slot of a message, and whether that is a nearer one because its own is beyond the window."""
        timers, window = self._parts.timers, self._parts.config.timer_roll_window_slot
        most = timers.furthest // timers.precision
        if not 2 <= window <= most:
            window = most
        beyond = tick - now - window
        if beyond < 0:
            return tick, False
        return now + (window // 2 if beyond < window // 3 else window), True

    def _add(self, record: TimerRecord, tick: int, kind: int, due: float, *, late: bool = False) -> bool:
        """Collect the entry of a message for a slot."""
        parts = self._parts
        if not parts.timers.wheel.has_room(tick):
            return False
        entry = TimerEntry(tick, kind, record.position, record.size, string_hash(record.topic))
        self._entries.append(entry)
        self._counted.append((record.topic, 1))
        if tick in parts.opened.slots:
            self._opened.append(self._waiting(entry, due, LATE if late else 0))
        return True

    def _waiting(self, entry: TimerEntry, due: float, more: int) -> DueMessage:
        opened, timers = self._parts.opened, self._parts.timers
        written = self._parts.now_tick() * timers.precision
        tick, kind, position, size, topic_hash = entry
        return DueMessage(due, opened.number(), tick, kind | more, written, position, size, topic_hash)

    def _recall(self, record: TimerRecord, tick: int, now: int, *, rolls: bool) -> bool:
        """Collect a recall for every slot in which its message may be, depending on the clocks."""
        parts = self._parts
        kind = PLAIN | DELETE | (ROLL if rolls else 0)
        ticks = {tick}
        if not rolls:
            for shift in parts.clock.shifts():
                moved = parts.timers.tick_of(tick * parts.timers.precision + shift)
                ticks |= {moved, moved + 1}
        wheel = parts.timers.wheel
        for each in sorted(ticks | self._late.get(tick, set())):
            if each >= now or wheel.get(each) is not None:
                if not wheel.has_room(each):
                    return False
                self._put_recall(record, each, kind)
        if tick < now:
            self._vain.setdefault(tick, []).append(record)
            self._new_vain.append(tick)
        self._counted.append((record.topic, -1))
        return True

    def _put_recall(self, record: TimerRecord, tick: int, kind: int) -> None:
        """Collect a recall for one slot."""
        entry = TimerEntry(tick, kind, record.position, record.size, string_hash(record.topic))
        self._entries.append(entry)
        if tick in self._parts.opened.slots and not kind & ROLL:
            self._recalls.append((tick, record, entry))

    def _deliver(self, record: TimerRecord, now: int) -> bool:
        """Deliver a message whose slot has passed, after noting the progress before it.

        If its queue cannot be made, it waits in the slot of now. Returns False if that is not possible.
        """
        self._finish(record.queue_offset)
        outcome = self._delivery.prepare(record.position, record.size, NEVER_ENQUEUED)
        _, failure = self._delivery.put_all([outcome], self._parts.clock.elapsed())
        if failure is not None:
            raise failure
        if outcome.retry_at is not None:
            return self._add(record, now, PLAIN, outcome.retry_at)
        if outcome.was_put:
            self._parts.commit()
        self._finish(record.queue_offset + 1)
        return True

    # --- all that was gathered

    def _finish(self, reached: int) -> None:
        """Write the collected entries, and note the progress."""
        parts = self._parts
        entries, opened, recalls, counted = self._gathered()
        if entries:
            parts.timers.add(entries, parts.now_tick() * parts.timers.precision)
        self.taken += max(0, reached - parts.timers.queue_offset)
        parts.timers.take_up_to(reached)
        self._new_late, self._new_vain = [], []
        for waiting in opened:
            parts.opened.add(waiting)
        for tick, record, entry in recalls:
            slot = parts.opened.slots[tick]
            slot.recalled[record.properties[PropertyName.TIMER_DEL_UNIQUE_KEY]] = record.topic
            slot.recalls.append((entry.position, entry.size, entry.topic_hash))
        for topic, more in counted:
            parts.metrics.add(topic, more)

    def _gathered(
        self,
    ) -> tuple[list[TimerEntry], list[DueMessage], list[tuple[int, TimerRecord, TimerEntry]], list[tuple[str, int]]]:
        """Add the collected entries to the open slots."""
        found = self._entries, self._opened, self._recalls, self._counted
        self._entries, self._opened, self._recalls, self._counted = [], [], [], []
        return found


def _first_position(records: bytes) -> int:
    """The position of the first record of a read."""
    return int.from_bytes(records[28:36])
