"""Messages with a delay level, as a part of the broker. `schedule` delivers them; this says when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy_broker_sim.broker.delays.schedule import ScheduleService
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_delays
from rocketpy_broker_sim.broker.runtime_info import measures_of_delays
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.delay_offsets import DelayOffsetTable
from rocketpy_broker_sim.store.delay_levels import DelayLevels

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.subsystems.storing import Storing
    from rocketpy_broker_sim.broker.tables.topics import TopicTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Delays"]

_logger = get_logger(__name__)


class Delays(Subsystem):
    """Delivers what was parked.

    Args:
        config: the settings.
        storage: where its offsets are kept; written after the messages that they pass, so by itself.
        storing: where messages wait, and where they go; recovered before.
        topics: knows how many read queues each topic has.

    Attributes:
        level_count: How many levels of delay there are.
        offsets: How far each level has been delivered.
    """

    def __init__(self, config: BrokerConfig, storage: Storage, storing: Storing, topics: TopicTable) -> None:
        levels = DelayLevels(config.store.message_delay_level)
        self.level_count = levels.count
        self._reads = storing.store.reads
        self._interval = config.store.flush_delay_offset_interval / 1000
        self.offsets = DelayOffsetTable(config, storage)
        self.schedule = ScheduleService(
            storing.store, levels, self.offsets, storing.commit, storing.flusher.flush_taken, topics.queues_read
        )

    def arrived(self, arrival: Arrival) -> None:
        """Messages can be read."""
        if arrival.topic == SCHEDULE_TOPIC:
            self.schedule.on_arrival(arrival.queue_id)

    def recover(self) -> None:
        """Read where delivery stood."""
        self.schedule.load()

    def run(self) -> Iterable[Service]:
        """Delivering, and noting on the disk how far that went."""
        yield self.schedule.serve
        yield partial(self.schedule.serve_offsets, self._interval)

    async def close(self) -> None:
        """Note on the disk how far it is; that fails with a disk that does not work."""
        try:
            await self.schedule.save()
        except StoreError as exc:
            _logger.warning("delayed messages may be delivered again: %s", exc)

    def measures(self) -> Mapping[str, str]:
        """How far each level has been delivered, and where it ends."""
        return measures_of_delays(self.schedule, self._reads)

    def families(self) -> Iterable[Family]:
        """How far each level has been delivered, and how many messages wait."""
        return metrics_of_delays(self.schedule, self._reads.max_offset)
