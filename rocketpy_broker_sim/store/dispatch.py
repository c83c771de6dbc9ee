"""From the commit log to what is derived from it: consume queues, and further readers such as a key index.

The same function serves messages that were just written, from memory, and records that recovery reads from the log.
Plays the part of ReputMessageService's step and of CommitLogDispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rocketpy_broker_sim.store.put_result import Arrival
from rocketpy_broker_sim.store.queue.consume_queue import UNIT, Replay
from rocketpy_broker_sim.store.queue.dispatch_request import DispatchRequest, is_consumable, tags_code_of

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.delay_levels import DelayLevels
    from rocketpy_broker_sim.store.filtering import BitMaps
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["CommitLogDispatcher", "QueuedRequest"]

QueuedRequest: TypeAlias = "DispatchRequest[ConsumeQueue]"
"""Records with the consume queue that they belong to."""

Reader: TypeAlias = Callable[[Sequence[QueuedRequest]], None]
"""A further reader of the log; may be given the same request again after a failure or a crash."""


class CommitLogDispatcher:
    """Takes requests in log order and hands them on.

    Attributes:
        bit_maps: Says which filters new messages pass; None when nobody wants to know.
        readers: Called with every chunk after the consume queues have it: the place of a key index.
    """

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues
        self._arrivals: list[Arrival] = []
        self.bit_maps: BitMaps | None = None
        self.readers: list[Reader] = []

    def dispatch(self, requests: Sequence[QueuedRequest], replay: Replay = Replay.NO) -> list[Arrival]:
        """Add units for a chunk of records, a write a queue. Repeating it after a failure does no harm.

        Returns:
            What has arrived, a queue each.
        """
        # What is replayed may be older than the filters that are known now.
        bit_maps = self.bit_maps if replay is Replay.NO else None
        filtered: Container[str] = () if bit_maps is None else bit_maps.begin()
        by_queue: dict[ConsumeQueue, list[QueuedRequest]] = {}
        for request in requests:
            if is_consumable(request[6]):
                group = by_queue.get(request[0])
                if group is None:
                    by_queue[request[0]] = [request]
                else:
                    group.append(request)
        for queue, group in by_queue.items():
            self._append(queue, group, replay, bit_maps if queue.topic in filtered else None)
        for reader in self.readers:
            reader(requests)
        arrivals, self._arrivals = self._arrivals, []  # with those of an attempt that failed half-way
        return arrivals

    def settle(self) -> None:
        """Note that what was dispatched is known to be: see `QueueTable.settle_units`."""
        self._queues.settle_units()

    def _append(
        self, queue: ConsumeQueue, group: Sequence[QueuedRequest], replay: Replay, bit_maps: BitMaps | None
    ) -> None:
        """Add the units of one queue; more than one round only where its topic was deleted and made again."""
        while group:
            before = queue.max_offset
            taken = queue.append(group, replay, bit_maps)
            if not taken:
                return
            self._queues.add_units(queue.max_offset - before)
            self._queues.mark_dirty(queue)
            if len(taken) == 1:
                size, codes, properties = taken[0][3], taken[0][4], taken[0][7]
            else:
                size = sum([request[3] for request in taken])
                codes = [code for request in taken for code in request[4]]
                properties = [each for request in taken for each in request[7]]
            self._arrivals.append(Arrival(queue.topic, queue.queue_id, queue.max_offset, codes, properties, size))
            if len(taken) == len(group):
                return
            done = taken[-1].position
            group = [request for request in group if request.position > done]

    def request_of(self, record: LogRecord, levels: DelayLevels) -> QueuedRequest:
        """The request of a record that was read from the log."""
        queue = self._queues.open(record.topic.decode("utf-8", "replace"), record.queue_id)
        code = (
            levels.deliver_time(record.properties, record.store_timestamp)
            if queue.is_schedule
            else tags_code_of(record.properties)
        )
        return DispatchRequest(
            queue,
            record.queue_offset,
            record.position,
            record.size,
            (code,),
            record.store_timestamp,
            record.sys_flag,
            (record.properties,),
            UNIT.pack(record.position, record.size, code),
        )
