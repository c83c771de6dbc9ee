"""Reading queues: batches of messages from an offset on, and offsets and times looked up in both directions.

Plays the part of DefaultMessageStore.getMessage and of the searches by time in ConsumeQueue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy.wire.enums import BoundaryType
from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.disk.platforms import memory_size
from rocketpy_broker_sim.store.log.place_holders import PLACE_HOLDER_CODE, is_place_holder
from rocketpy_broker_sim.store.log.properties import read_properties
from rocketpy_broker_sim.store.prefetch import BACKLOG, Prefetch
from rocketpy_broker_sim.store.put_result import GetMessageResult, GetMessageStatus, Match
from rocketpy_broker_sim.store.queue.consume_queue_ext import LAST_ADDRESS

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.filtering import MessageFilter
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.consume_queue_ext import ConsumeQueueExt
    from rocketpy_broker_sim.store.queue.table import QueueTable
    from rocketpy_broker_sim.store.read_check import ReadCheck

__all__ = ["QueueReader"]

MAX_PULL_BYTES = 128 * 1024 * 1024
MIN_PULL_BYTES = 100
_ANY = 1 << 62


class QueueReader:
    """Looks up units, then copies the records they point to.

    Attributes:
        check: Looks at messages from before this run.
    """

    def __init__(self, config: MessageStoreConfig, commit_log: CommitLog, queues: QueueTable, check: ReadCheck) -> None:
        self.check = check
        self._config = config
        self._log = commit_log
        self._queues = queues
        self._prefetch = Prefetch(commit_log)
        self._wants_all = _Test(commit_log, None, None, None)
        self._memory = memory_size() if config.memory_size is None else config.memory_size

    # --- messages

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        match: Match | None,
        wanted: MessageFilter | None = None,
    ) -> GetMessageResult:
        """Up to `max_count` messages from `offset` on, or the reason why there are none."""
        queue = self._queues.find((topic, queue_id))
        if queue is None:
            return GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low, high = queue.min_offset, queue.max_offset
        if high == 0:
            return GetMessageResult(GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetMessageResult(GetMessageStatus.OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return GetMessageResult(GetMessageStatus.OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetMessageResult(GetMessageStatus.OFFSET_OVERFLOW_BADLY, high, low, high)
        if match is None and wanted is None:
            test = self._wants_all
        else:
            test = _Test(self._log, queue.ext, match if wanted is None else wanted.by_code, wanted)
        return self._found(queue, offset, max_count, max(MIN_PULL_BYTES, min(max_bytes, MAX_PULL_BYTES)), test)

    def _found(self, queue: ConsumeQueue, offset: int, max_count: int, max_bytes: int, test: _Test) -> GetMessageResult:
        """What lies at an offset inside the queue."""
        log_end = self._log.written[0]
        memory = self._memory * self._config.access_message_in_memory_max_ratio // 100
        picked = _Picked(self._log, self._limits(max_count, max_bytes), log_end - memory)
        window = max_count if test.wants_all else max(self._config.max_filter_message_size // UNIT_SIZE, max_count)
        if test.most_looked_at is not None:
            window = min(window, test.most_looked_at)
        limit = min(offset + max(1, window), queue.max_offset)
        for _ in range(self._config.travel_cq_file_num_when_get_message):
            at = offset + picked.passed
            picked.take(queue.units(at, limit - at), test)
            if picked.count or offset + picked.passed >= limit:
                break
        records, count, following = self._log.read_ranges(picked.ranges), picked.count, offset + picked.passed
        if log_end - picked.last_position > BACKLOG:
            self._prefetch.begin(queue, following, count)
        if offset < queue.inherited:
            passed = picked.passed if test.wants_all and not picked.has_place_holders else None
            sound = self.check.sound(queue, offset, records, picked.ranges, count, passed)
            if sound is not None:  # the next read begins with the damage, and says so
                records, count, following = records[: sound.size], sound.messages, sound.next_offset
        return GetMessageResult(
            picked.status,
            following,
            queue.min_offset,
            queue.max_offset,
            records,
            count,
            log_end - picked.last_position > memory,
        )

    def _limits(self, max_count: int, max_bytes: int) -> tuple[int, int, int, int]:
        """Count and bytes of one read, for messages in memory and for those on the disk."""
        config = self._config
        return (
            min(max_count, config.max_transfer_count_on_message_in_memory),
            min(max_bytes, config.max_transfer_bytes_on_message_in_memory),
            min(max_count, config.max_transfer_count_on_message_in_disk),
            min(max_bytes, config.max_transfer_bytes_on_message_in_disk),
        )

    # --- offsets and times

    def store_time(self, queue: ConsumeQueue, offset: int) -> int:
        """When the message at an offset was stored, ms; -1 when it is not there."""
        unit = queue.unit(offset)
        return -1 if unit is None else self._log.store_timestamp(unit[0], unit[1])

    def is_in_memory(self, queue: ConsumeQueue, offset: int) -> bool:
        """Whether a message lies close enough to the end of the log to count as being in memory."""
        unit = queue.unit(offset)
        memory = self._memory * self._config.access_message_in_memory_max_ratio // 100
        return unit is not None and self._log.written[0] - unit[0] <= memory

    def offset_by_time(self, queue: ConsumeQueue, timestamp: int, boundary: BoundaryType) -> int:
        """LOWER: the first message stored at or after a time; UPPER: the last one stored at or before it."""
        low, high = queue.min_offset, queue.max_offset
        if low >= high:
            return low
        if boundary is BoundaryType.UPPER:
            return max(low, self._first_after(queue, timestamp, low, high) - 1)
        return self._first_after(queue, timestamp - 1, low, high)

    def _first_after(self, queue: ConsumeQueue, timestamp: int, low: int, high: int) -> int:
        """The first offset whose message was stored later than `timestamp`; `high` when there is none."""
        while low < high:
            middle = (low + high) // 2
            if self.store_time(queue, middle) > timestamp:
                high = middle
            else:
                low = middle + 1
        return low


class _Test:
    """Which units of a read are wanted.

    Attributes:
        by_code: Says it by the tags code in a unit; None lets every unit through.
        by_address: Says it by the address of what the extension has of a message.
        by_message: Says it by the record, whose position and size it is given; None lets every record through.
        left: Bytes of properties that it has time for; below zero it shall stop.
        most_looked_at: Units that one read has time for; None for any number.
        wants_all: Whether nothing is refused.
    """

    __slots__ = ("_log", "_wanted", "by_address", "by_code", "by_message", "left", "most_looked_at", "wants_all")

    def __init__(
        self, log: CommitLog, ext: ConsumeQueueExt | None, match: Match | None, wanted: MessageFilter | None
    ) -> None:
        self._log = log
        by_bits = None if wanted is None else wanted.by_bits
        # Without the extension nothing is known of what leads there: consumers check tags themselves.
        self.by_address = _always if ext is None else ext.tester(match, by_bits)
        self._wanted = wanted
        self.by_code = match
        if match is None and ext is not None and by_bits is not None:
            self.by_code = _always
        self.by_message = None if wanted is None or wanted.by_message is None else self._wants_message
        self.most_looked_at = None if wanted is None else wanted.most_looked_at
        self.left = _ANY if wanted is None or wanted.most_bytes is None else wanted.most_bytes
        self.wants_all = self.by_code is None and self.by_message is None

    def _wants_message(self, position: int, size: int) -> bool:
        if self._wanted is None or self._wanted.by_message is None:
            return True
        properties = read_properties(self._log, position, size)
        if properties is None:
            return True  # of damage the reader is told
        self.left -= len(properties)
        return self._wanted.by_message(properties)


def _always(_: int) -> bool:
    """Let a message through whatever its tag is."""
    return True


class _Picked:
    """The messages of one read while they are picked: as ranges of the log, which are copied at the end.

    Attributes:
        ranges: (begin, end) of records that lie side by side.
        passed: Units gone over, wanted or not.
        has_place_holders: Whether one of them stands for a message that was lost.
    """

    __slots__ = (
        "_bytes",
        "_limits",
        "_log",
        "_memory_from",
        "count",
        "has_place_holders",
        "last_position",
        "passed",
        "ranges",
        "status",
    )

    def __init__(self, log: CommitLog, limits: tuple[int, int, int, int], memory_from: int) -> None:
        self._log = log
        self._limits = limits
        self._memory_from = memory_from
        self._bytes = 0
        self.ranges: list[tuple[int, int]] = []
        self.count = 0
        self.passed = 0
        self.has_place_holders = False
        self.last_position = 0
        self.status = GetMessageStatus.NO_MATCHED_MESSAGE

    def take(self, units: Iterator[tuple[int, int, int]], test: _Test) -> None:
        """Go over units until enough is picked; the first message that matches is taken whatever its size."""
        memory_count, memory_bytes, disk_count, disk_bytes = self._limits
        by_code, by_address, by_message = test.by_code, test.by_address, test.by_message
        log_start, log_end = self._log.start, self._log.written[0]
        memory_from, total, count = self._memory_from, self._bytes, self.count
        passed, begin, end, position = self.passed, 0, 0, self.last_position
        for position, size, code in units:
            if (
                count
                and (
                    (count >= memory_count or total + size > memory_bytes)
                    if position >= memory_from
                    else (count >= disk_count or total + size > disk_bytes)
                )
            ) or (by_message is not None and test.left < 0):
                break
            passed += 1
            if (by_code is not None and not (by_code(code) if code > LAST_ADDRESS else by_address(code))) or (
                by_message is not None and not by_message(position, size)
            ):
                continue
            if code == PLACE_HOLDER_CODE and is_place_holder(self._log, position, size):
                self.has_place_holders = True
                continue
            if position < log_start or position + size > log_end:
                if not count:
                    self.status = GetMessageStatus.MESSAGE_WAS_REMOVING
                continue
            count += 1
            total += size
            if position != end:
                if end:
                    self.ranges.append((begin, end))
                begin = position
            end = position + size
        if end:
            self.ranges.append((begin, end))
            self.status = GetMessageStatus.FOUND
        self.count, self._bytes, self.passed, self.last_position = count, total, passed, position
