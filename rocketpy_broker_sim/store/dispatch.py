"""From the commit log to what is derived from it: consume queues, and further readers such as a key index.

The same function serves messages that were just written, from memory, and records that recovery reads from the log.
Plays the part of ReputMessageService's step and of CommitLogDispatcher.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from rocketpy.errors import ConfigError
from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.properties import find_property
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from rocketpy_broker_sim.store.put_result import Arrival
from rocketpy_broker_sim.store.queue.consume_queue import UNIT, Replay
from rocketpy_broker_sim.store.queue.dispatch_request import DispatchRequest

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.filtering import BitMaps
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["DelayLevels", "Dispatcher", "QueuedRequest", "is_consumable", "tags_code_of"]

_CONSUMABLE = (TRANSACTION_NONE, TRANSACTION_COMMIT)
_DELAY = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


QueuedRequest: TypeAlias = "DispatchRequest[ConsumeQueue]"
"""Records with the consume queue that they belong to."""

Reader: TypeAlias = Callable[[Sequence[QueuedRequest]], None]
"""A further reader of the log; may be given the same request again after a failure or a crash."""


class Dispatcher:
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
            if request[6] & TRANSACTION_MASK in _CONSUMABLE:
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
                codes, properties = taken[0][4], taken[0][7]
            else:
                codes = [code for request in taken for code in request[4]]
                properties = [each for request in taken for each in request[7]]
            self._arrivals.append(Arrival(queue.topic, queue.queue_id, queue.max_offset, codes, properties))
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


def is_consumable(sys_flag: int) -> bool:
    """Whether a record gets a queue offset: prepared and rolled back transactions get none."""
    return sys_flag & TRANSACTION_MASK in _CONSUMABLE


def tags_code_of(properties: bytes) -> int:
    """The hash of the tag in encoded properties, 0 without one."""
    tag = find_property(properties, b"TAGS")
    return _code_of_tag(tag) if tag else 0


@lru_cache(maxsize=4096)
def _code_of_tag(tag: bytes) -> int:
    return tags_code(tag.decode("utf-8", "replace"))


class DelayLevels:
    """The delays behind the levels 1, 2, ...; units of the schedule topic carry the time of delivery as tags code."""

    def __init__(self, text: str) -> None:
        self._delays = [_delay_ms(part) for part in text.split()]
        if not self._delays:
            raise ConfigError("messageDelayLevel: there is no delay, write at least one as in 1s 5s 10s")

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self._delays)

    def delay(self, level: int) -> int:
        """Milliseconds of a level; the highest for what lies above it."""
        return self._delays[min(level, len(self._delays)) - 1]

    def deliver_time(self, properties: bytes, store_timestamp: int) -> int:
        """When a scheduled message is due; the hash of its tag when it names no level."""
        level = find_property(properties, b"DELAY")
        if level is None or not level.isdigit() or len(level) > 9 or int(level) == 0:
            return tags_code_of(properties)
        return store_timestamp + self.delay(int(level))


def _delay_ms(text: str) -> int:
    match = _DELAY.fullmatch(text)
    if match is None:
        raise ConfigError(f"messageDelayLevel: {text!r:.100} is no delay, write a number and one of s, m, h, d")
    return int(match[1]) * _UNIT_MS[match[2]]
