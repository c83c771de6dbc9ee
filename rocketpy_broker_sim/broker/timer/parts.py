"""TimerParts: what the two halves of the timer share, such as store, wheel, clock and counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketpy_broker_sim.broker.timer.times import exact_ms

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.tables.timer_metrics import TimerMetricsTable
    from rocketpy_broker_sim.broker.timer.clock import TimerClock
    from rocketpy_broker_sim.broker.timer.records import TimerRecord
    from rocketpy_broker_sim.broker.timer.waiting import OpenSlots
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.timer.store import TimerStore

__all__ = ["TimerParts"]

_APART_MS: Final = 20
"""How far apart stored times and the wall clock may seem although they agree: a third clock compares the two."""


class TimerParts(NamedTuple):
    """The parts of one timer.

    Attributes:
        config: The settings.
        store: Where messages wait, and where they go.
        timers: Wheel and log.
        opened: The slots whose time has come, or comes soon.
        clock: The clock of the timer.
        metrics: Counts of waiting messages, by topic.
        commit: Writes what was put and lets consumers see it; raises StoreError.
    """

    config: MessageStoreConfig
    store: MessageStore
    timers: TimerStore
    opened: OpenSlots
    clock: TimerClock
    metrics: TimerMetricsTable
    commit: Callable[[], None]

    def now_tick(self) -> int:
        """The current tick."""
        return self.timers.tick_of(self.clock.now_ms())

    def due(self, record: TimerRecord, slot_ms: int) -> float:
        """The monotonic time at which a message is due, ms.

        Args:
            record: the message.
            slot_ms: the beginning of its slot.
        """
        stored, waited = float(record.stored_ms), self.store.clock.waited_ms(record.position, record.stored_ms)
        if waited is not None:
            # The delay began by the wall clock, which stored times do not follow if it is set back.
            wall = self.clock.elapsed() - waited - self.clock.due(record.position, 0)
            stored = stored if abs(wall - stored) < _APART_MS else wall + _APART_MS
        moment = exact_ms(record.properties, math.ceil(stored), slot_ms, self.timers.precision)
        return self.clock.due(record.position, moment)

    def slot_due(self, tick: int) -> float:
        """The monotonic time at which a tick begins, ms."""
        return tick * self.timers.precision - self.clock.read_time(0)
