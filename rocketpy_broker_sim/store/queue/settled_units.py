"""Whether consume queues have the units of records that log and queues both had on the disk.

Recovery reads such records once more to find rot, and need not build their units again. It sees the last one of each
queue go by: where a queue does not end with it, something else than a power loss was at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.queue.consume_queue import OffsetGapError
from rocketpy_broker_sim.store.queue.dispatch_request import is_consumable

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["SettledUnits"]


class SettledUnits:
    """The last record of each queue before a position, of those that were read."""

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self._last: dict[tuple[bytes, int], LogRecord] = {}

    def note(self, record: LogRecord) -> None:
        """A record goes by."""
        if is_consumable(record.sys_flag):
            self._last[record.topic, record.queue_id] = record

    def check(self) -> None:
        """Compare the queues, while they have no unit of a record that comes later.

        Raises:
            OffsetGapError: One of them ends with another record.
        """
        for (topic, queue_id), record in self._last.items():
            queue = self._queues.find((topic.decode(), queue_id))
            end = (record.queue_offset + 1, record.position + record.size)
            if queue is None or (queue.max_offset, queue.max_position) != end:
                raise OffsetGapError(f"{topic.decode()} {queue_id} has no unit of the record at {record.position}")
