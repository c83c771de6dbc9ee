"""The timer as a subsystem of the broker: it runs the services of `timer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_timer
from rocketpy_broker_sim.broker.runtime_info import NO_TIMER, measures_of_timer
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.timer_metrics import TimerMetricsTable
from rocketpy_broker_sim.broker.timer.clock import TimerClock
from rocketpy_broker_sim.broker.timer.parts import TimerParts
from rocketpy_broker_sim.broker.timer.service import TimerService
from rocketpy_broker_sim.broker.timer.waiting import OpenSlots
from rocketpy_broker_sim.store.timer.store import TimerStore

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.subsystems.storing import Storing
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["TimedMessages"]

_logger = get_logger(__name__)


class TimedMessages(Subsystem):
    """Delivers messages when they are due. With timerWheelEnable=false it does nothing.

    Args:
        config: the settings.
        storage: where wheel, log and checkpoint are; written apart from other tables, because after the messages.
        storing: the store; recovered before.
        topics: knows how many read queues each topic has.

    Attributes:
        is_on: Whether there is a timer.
        timers: Wheel and log.
        metrics: The number of waiting messages by topic; written with the checkpoint.
        service: Moves the messages.
    """

    def __init__(self, config: BrokerConfig, storage: Storage, storing: Storing, topics: TopicTable) -> None:
        self.is_on = config.store.timer_wheel_enable
        self.timers = TimerStore(storage, config.store, storing.store)
        self.metrics = TimerMetricsTable(storage, topics.__contains__)
        self._store = storing.store
        self._clock = clock = TimerClock(trio.current_time)
        parts = TimerParts(config.store, storing.store, self.timers, OpenSlots(), clock, self.metrics, storing.commit)
        self.service = TimerService(parts, storing.flusher.flush_taken, topics.queues_read)
        topics.subscribe(self._topics_changed)

    def _topics_changed(self, names: list[str]) -> None:
        for name in self.metrics.counted_among(names):
            self.metrics.forget(name)

    def arrived(self, arrival: Arrival) -> None:
        """Messages can be read."""
        if arrival.topic == TIMER_TOPIC:
            self.service.on_arrival()

    def count_in(self, time_ms: int) -> int:
        """The number of messages in the slot of a time."""
        slot = self.timers.wheel.get(self.timers.tick_of(time_ms))
        return 0 if slot is None else slot.messages

    def recover(self) -> None:
        """Read the progress of the timer."""
        if self.is_on:
            self.metrics.load()
            self.timers.load(wall_ms())
            self._clock.restore(self.timers.shifts)

    def give_back(self) -> None:
        """Close the files."""
        self.timers.close()

    def run(self) -> Iterable[Service]:
        """The service that moves messages, and the one that writes the progress."""
        if self.is_on:
            yield self.service.serve
            yield self.service.serve_flush

    async def close(self) -> None:
        """Write the progress; a failure of the disk is only logged."""
        if not self.is_on:
            return
        try:
            await self.service.leave()
        except StoreError as exc:
            _logger.warning("timer messages may be delivered again: %s", exc)
        self.timers.close()

    def abandon(self) -> None:
        """Leave the files as they are."""
        self.timers.close()

    def measures(self) -> Mapping[str, str]:
        """How far the timer is behind, and how many messages wait."""
        return measures_of_timer(self.service, self.timers) if self.is_on else NO_TIMER

    def families(self) -> Iterable[Family]:
        """How far the timer is behind, and how many messages wait; nothing without a timer."""
        return metrics_of_timer(self.service, self.timers) if self.is_on else ()
