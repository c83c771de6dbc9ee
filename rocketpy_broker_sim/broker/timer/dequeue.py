"""From the wheel to the topics: the second half of the timer.

A slot is opened before its time: its messages are looked up, and wait in memory until each is due. It is closed when
its tick is over and all of them are delivered. Plays the part of TimerDequeueGetService, of the services that read and
write messages for it, and of its warm-up.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

from rocketpy.errors import MessageDecodeError, StoreError
from rocketpy.logs import get_logger
from rocketpy.message import PropertyName
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.broker.timer.clock import INSTANT_MS
from rocketpy_broker_sim.broker.timer.records import TimerRecord, timer_records
from rocketpy_broker_sim.broker.timer.times import delete_key, out_ms
from rocketpy_broker_sim.broker.timer.waiting import LATE, DueMessage
from rocketpy_broker_sim.store.timer.store import TimerEntry
from rocketpy_broker_sim.store.timer.units import DELETE, NOWHERE, PLAIN, ROLL, TimerUnit

if TYPE_CHECKING:
    from collections.abc import Generator

    from rocketpy_broker_sim.broker.timer.delivery import Delivery, Outcome
    from rocketpy_broker_sim.broker.timer.parts import TimerParts
    from rocketpy_broker_sim.broker.timer.waiting import OpenSlot
    from rocketpy_broker_sim.store.timer.units import Slot

__all__ = ["Dequeue"]

AHEAD_MS: Final = 1000
"""The least time by which a slot is opened early."""
AHEAD_MS_EACH: Final = 0.05
"""The additional time for each message in the slot."""
AHEAD_TICKS: Final = 20
"""How many ticks ahead slots to be opened are looked for."""
LOOKED_UP: Final = 64
"""Messages that are looked up in one step of opening a slot."""
MOST_OPEN: Final = 200_000
"""Messages in open slots above which no further slot is opened: after a long stop, very many messages may be due."""
log = get_logger(__name__)


class Dequeue:
    """Opens slots and delivers what is in them.

    Args:
        parts: Where the messages are.
        delivery: Delivers them.

    Attributes:
        delivered: How many have been delivered since the start.
    """

    def __init__(self, parts: TimerParts, delivery: Delivery) -> None:
        self._parts = parts
        self._delivery = delivery
        self._opening: Generator[None, None, None] | None = None
        self._is_opening: int | None = None  # the tick of that slot
        self._next: deque[int] = deque()  # ticks of slots to be opened after it
        self.delivered = 0

    # --- opening slots

    def open_due(self) -> bool:
        """Take one step of opening slots. Returns whether there is more to do at once.

        Raises:
            StoreError: the disk refused; the slot will be opened again.
        """
        if self._opening is None:
            slot = self._next_slot()
            if slot is None:
                return False
            self._parts.opened.open(slot.tick)
            self._opening, self._is_opening = self._open_steps(slot), slot.tick
        try:
            next(self._opening)
        except StopIteration:
            self._opening = self._is_opening = None
        except BaseException:
            self._opening = self._is_opening = None
            raise
        return True

    def _next_slot(self) -> Slot | None:
        """The first slot to be opened now."""
        if len(self._parts.opened) > MOST_OPEN:
            return None
        if not self._next:
            self._next.extend(self._due_slots())
        return self._parts.timers.wheel.get(self._next.popleft()) if self._next else None

    def _due_slots(self) -> list[int]:
        """The slots to be opened now."""
        wheel, now = self._parts.timers.wheel, self._parts.clock.now_ms()
        oldest = wheel.oldest()
        if oldest is None:
            return []
        opened = self._parts.opened.slots
        near = wheel.between(oldest, self._parts.timers.tick_of(now) + AHEAD_TICKS)
        return [tick for tick in near if tick not in opened and self._opens_at(wheel.slots[tick]) <= now]

    def _opens_at(self, slot: Slot) -> float:
        ahead: float = AHEAD_MS + max(0, slot.messages) * AHEAD_MS_EACH
        return slot.tick * self._parts.timers.precision - ahead

    def _open_steps(self, slot: Slot) -> Generator[None, None, None]:
        """Look up the messages of a slot."""
        opened, tick = self._parts.opened, slot.tick
        try:
            units = yield from self._parts.timers.units_steps(slot)
            found: list[tuple[TimerUnit, float | None]] = []
            for number, unit in enumerate(units, 1):
                self._look_up(opened.slots[tick], unit, found)
                if not number % LOOKED_UP:
                    yield
            yield from self._sort_steps(tick, found)
        except BaseException:
            opened.slots.pop(tick, None)  # what was added meanwhile stands in the wheel, too
            raise
        opened.finish_reading(tick)

    def _look_up(self, slot: OpenSlot, unit: TimerUnit, found: list[tuple[TimerUnit, float | None]]) -> None:
        """Find out when the message of a unit is due, or what it recalls."""
        record = self._record(unit)
        if record is None:
            return
        if unit.deletes:
            key = record.properties.get(PropertyName.TIMER_DEL_UNIQUE_KEY)
            if key is not None:
                slot.recalled[key] = record.topic
                slot.recalls.append((unit.position, unit.size, unit.topic_hash))
            return
        parts = self._parts
        begin = out_ms(record.properties)
        due: float | None = None
        if not unit.rolls and begin is not None:
            due = parts.due(record, begin)
        found.append((unit, due))

    def _record(self, unit: TimerUnit) -> TimerRecord | None:
        """The record that a unit points to; None if it is gone, which is logged."""
        data = self._parts.store.reads.read(unit.position, unit.size)
        try:
            if data is not None:
                return next(timer_records(data))
        except MessageDecodeError as exc:
            log.error("the timer message at %d is damaged and is skipped: %s", unit.position, exc)
            return None
        log.warning("a timer message is gone: the log no longer goes back to %d", unit.position)
        return None

    def _sort_steps(self, tick: int, found: list[tuple[TimerUnit, float | None]]) -> Generator[None, None, None]:
        """Let messages wait for their time: in memory, or in a later slot if the clock was set forward."""
        parts = self._parts
        timers, begin = parts.timers, parts.slot_due(tick)
        later: list[TimerEntry] = []
        for number, (unit, due) in enumerate(found, 1):
            slot = tick if due is None else timers.tick_of(parts.clock.read_time(due))
            moves = slot > tick + 1 and timers.wheel.has_room(slot)
            if moves and not self._is_recalled(tick, unit):
                later.append(TimerEntry(slot, unit.kind, unit.position, unit.size, unit.topic_hash))
            else:
                at = begin if due is None or moves else due  # one that is recalled is left out when its turn comes
                parts.opened.add(_waiting(parts.opened.number(), tick, unit, at))
            if not number % (4 * LOOKED_UP):
                yield
        if later:
            timers.add(later, parts.now_tick() * timers.precision)

    def _is_recalled(self, tick: int, unit: TimerUnit) -> bool:
        """Whether a message of a slot is recalled in that slot."""
        recalled = self._parts.opened.slots[tick].recalled
        record = self._record(unit) if recalled else None
        key = "" if record is None else delete_key(record.topic, record.properties.get(PropertyName.UNIQUE_KEY, ""))
        return key in recalled

    # --- delivering

    def deliver_due(self, most: int, *, in_order: bool = True) -> bool:
        """Deliver up to `most` messages that are due. Returns whether there may be more to deliver at once.

        Args:
            most: The largest number of messages.
            in_order: Whether to wait until all messages are taken that were in the timer's topic when the time of the
                slot came, because they may be recalls.

        Raises:
            StoreError: the disk refused, or the store takes no messages now; what was not delivered keeps waiting.
        """
        opened = self._parts.opened
        taken: list[tuple[DueMessage, Outcome]] = []
        failure: StoreError | None = None
        try:
            failure = self._put_due(taken, most, in_order=in_order)
            if any(outcome.was_put for _, outcome in taken):
                self._parts.commit()
        except BaseException:
            for waiting, _ in taken:
                opened.put_back(waiting)
            raise
        self._note(taken)
        if failure is not None:
            raise failure
        return bool(taken)

    def _put_due(self, taken: list[tuple[DueMessage, Outcome]], most: int, *, in_order: bool) -> StoreError | None:
        """Put messages that are due. Returns the error that stopped this; None if there was none."""
        failure = self._take_due(taken, most, in_order=in_order)
        opened, now = self._parts.opened, self._parts.clock.elapsed()
        done, refusal = self._delivery.put_all([outcome for _, outcome in taken], now)
        for waiting, _ in taken[done:]:
            opened.put_back(waiting)
        del taken[done:]
        for waiting, outcome in taken:
            if outcome.retry_at is not None:
                opened.put_off(waiting, outcome.retry_at)
        taken[:] = [each for each in taken if each[1].retry_at is None]
        return refusal or failure

    def _take_due(self, taken: list[tuple[DueMessage, Outcome]], most: int, *, in_order: bool) -> StoreError | None:
        """Take messages that are due and prepare them. Returns the error that stopped this; None if there was none."""
        opened, now = self._parts.opened, self._parts.clock.elapsed() + INSTANT_MS
        failure: StoreError | None = None
        while len(taken) < most and (waiting := opened.take_due(now)) is not None:
            try:
                if self._is_its_turn(waiting, in_order=in_order):
                    taken.append((waiting, self._prepare(waiting)))
                    waiting = None
            except StoreError as exc:
                failure = exc
            finally:
                if waiting is not None:
                    opened.put_back(waiting)
            if waiting is not None or taken[-1][0].kind & ROLL:
                break  # what rolls may recall what comes next: that waits until it is through
        return failure

    def _prepare(self, waiting: DueMessage) -> Outcome:
        outcome = self._delivery.prepare(
            waiting.position,
            waiting.size,
            waiting.written_ms,
            rolls=waiting.kind & ROLL != 0,
            recalled=self._parts.opened.slots[waiting.tick].recalled,
        )
        if waiting.was_put_off:
            outcome.waited_for = waiting.due
        return outcome

    def _is_its_turn(self, waiting: DueMessage, *, in_order: bool) -> bool:
        """Whether all recalls are known that can apply to messages that are due."""
        parts = self._parts
        before = self._next[0] if self._next else None
        if self._is_opening is not None:
            before = self._is_opening if before is None else min(before, self._is_opening)
        if before is not None and before < parts.timers.tick_of(parts.clock.read_time(waiting.due)):
            return False
        if not in_order:
            return True
        if parts.store.is_behind:
            return False  # a recall that was answered may not be in the timer's topic yet
        is_caught_up = parts.timers.queue_offset >= parts.store.reads.max_offset(TIMER_TOPIC, 0)
        return is_caught_up or (not waiting.kind & LATE and self._has_passed(parts.opened.slots[waiting.tick]))

    def _has_passed(self, slot: OpenSlot) -> bool:
        """Whether all messages are taken that were in the timer's topic when the time of a slot came."""
        if slot.barrier is None:
            slot.barrier = self._parts.store.reads.max_offset(TIMER_TOPIC, 0)
        return self._parts.timers.queue_offset >= slot.barrier

    def _note(self, taken: list[tuple[DueMessage, Outcome]]) -> None:
        opened = self._parts.opened
        counts: dict[str, int] = {}
        for waiting, outcome in taken:
            opened.done(waiting)
            self.delivered += outcome.was_put
            if outcome.key is not None:
                opened.slots[waiting.tick].found.add(outcome.key)
            elif outcome.topic:
                counts[outcome.topic] = counts.get(outcome.topic, 0) + (1 if waiting.kind & DELETE else -1)
        for topic, more in counts.items():
            self._parts.metrics.add(topic, more)

    # --- closing slots

    def close_passed(self) -> None:
        """Close the slots whose tick is over and whose messages are all delivered."""
        opened, now = self._parts.opened, self._parts.now_tick()
        for tick in sorted(tick for tick in opened.complete if tick < now):
            slot = opened.close(tick)
            self._parts.timers.drop(tick)
            for key, topic in slot.recalled.items():
                if key not in slot.found:
                    self._parts.metrics.add(topic, 1)

    def leave(self) -> None:
        """Remove delivered messages from the wheel, because the broker stops in the middle of a second.

        Raises:
            StoreError: the disk refused; some messages are delivered again after the next start.
        """
        self.close_passed()
        opened, timers = self._parts.opened, self._parts.timers
        now = self._parts.now_tick() * timers.precision
        for tick, slot in opened.slots.items():
            if slot.last_done is None:
                continue
            for key in slot.found:  # the next run does not know, and will count the recall as one without a message
                self._parts.metrics.add(slot.recalled[key], -1)
            recalls = [_unit(PLAIN | DELETE, *each) for each in slot.recalls]
            left = [_unit(each.kind, each.position, each.size, each.topic_hash) for each in opened.left_of(tick)]
            # A slot without messages gets a recall of nothing: it may be written to until its tick is over.
            timers.replace(tick, recalls + left or [_unit(PLAIN | DELETE, *slot.last_done, 0)], now)

    # --- waiting

    def next_time(self) -> float:
        """When there will be something to do, by the monotonic clock, ms; infinite if nothing waits."""
        opened, timers, clock = self._parts.opened, self._parts.timers, self._parts.clock
        ahead = clock.read_time(0)
        times = [math.inf]
        due = opened.first_due()
        if due is not None:
            times.append(due)
        times.extend((tick + 1) * timers.precision - ahead for tick in opened.complete)
        oldest = timers.wheel.oldest()
        if oldest is not None:
            near = timers.wheel.between(oldest, self._parts.now_tick() + AHEAD_TICKS)
            times.extend(self._opens_at(timers.wheel.slots[tick]) - ahead for tick in near if tick not in opened.slots)
            if not near:
                times.append((oldest - AHEAD_TICKS + 1) * timers.precision - ahead)
        return min(times)


def _waiting(number: int, tick: int, unit: TimerUnit, due: float) -> DueMessage:
    return DueMessage(due, number, tick, unit.kind, unit.written_ms, unit.position, unit.size, unit.topic_hash)


def _unit(kind: int, position: int, size: int, topic_hash: int) -> TimerUnit:
    return TimerUnit(NOWHERE, kind, 0, 0, position, size, topic_hash)
