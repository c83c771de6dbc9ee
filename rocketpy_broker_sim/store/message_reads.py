"""The read side of the message store: messages by queue and by position, offsets, times, and what queues there are.

It changes nothing and needs no state of the store beyond its log and queues. Plays the part of the getters of
DefaultMessageStore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketpy.errors import StoreError
from rocketpy.wire.enums import BoundaryType
from rocketpy_broker_sim.store.disk.failure import store_error, translated
from rocketpy_broker_sim.store.queue.consume_queue_ext import is_address
from rocketpy_broker_sim.store.read_check import ReadCheck
from rocketpy_broker_sim.store.reading import MAX_PULL_BYTES, QueueReader

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.filtering import MessageFilter
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.put_result import GetMessageResult, Match
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.consume_queue_ext import ExtEntry
    from rocketpy_broker_sim.store.queue.table import QueueTable
    from rocketpy_broker_sim.store.running_flags import RunningFlags

__all__ = ["MessageReads"]

_MOST_UNITS = 1024
"""Units of a queue that are read together."""
_MOST_BYTES = 256 * 1024
"""Bytes of the log that are read together."""


class MessageReads:
    """What can be asked of a store.

    Args:
        storage: The directory, for the words of an error.
        config: Limits of a read; they may be changed at any time.
        commit_log: Where the records are.
        queues: Where the positions of the records are.
        flags: Say whether messages may be read.

    Attributes:
        check: Looks at messages from before this run.
    """

    def __init__(
        self,
        storage: Storage,
        config: MessageStoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        flags: RunningFlags,
    ) -> None:
        self.check = ReadCheck(storage, config, commit_log)
        self._flags = flags
        self._storage = storage
        self._log = commit_log
        self._queues = queues
        self._reader = QueueReader(config, commit_log, queues, self.check)

    # --- messages

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int = MAX_PULL_BYTES,
        match: Match | None = None,
        wanted: MessageFilter | None = None,
    ) -> GetMessageResult:
        """Messages of a queue from `offset` on, or the reason why there are none.

        Args:
            topic: Its topic.
            queue_id: Its number.
            offset: Where to begin.
            max_count: How many at most; the limits for memory and disk may lower it.
            max_bytes: How many bytes at most, but always one message.
            match: Says by tags code which messages are wanted; the others are passed over.
            wanted: Says it in two phases, in place of `match`.

        Raises:
            StoreError: The disk refused, or the store may not be read now.
        """
        if self._flags.bits and not self._flags.is_readable:
            raise StoreError(f"nothing is read for now: the store is marked {self._flags}")
        try:  # without a context manager: every pull comes here
            return self._reader.get(topic, queue_id, offset, max_count, max_bytes, match, wanted)
        except OSError as exc:
            raise store_error(exc, "reading messages", self._storage.describe("")) from exc

    def read(self, position: int, size: int | None = None) -> bytes | None:
        """The record at a position of the log; None when there is none. With a size, whatever bytes stand there.

        Raises:
            StoreError: The disk refused.
            StoreCorruptError: It is damaged.
        """
        try:  # without a context manager: every end of a transaction comes here
            data = self._log.read(position, self._log.record_size(position) if size is None else size)
        except OSError as exc:
            raise store_error(exc, "reading the commit log", self._storage.describe("")) from exc
        if data is not None and size is None:
            self.check.record(data, position)
        return data

    def records_at(self, topic: str, queue_id: int, offsets: Sequence[int]) -> list[tuple[LogRecord, bytes] | None]:
        """The records of messages of a queue, with what they say. What lies close together is read together.

        Returns:
            None for each that is not there, is damaged, cannot be read, or lies far from the others.
        """
        nothing: list[tuple[LogRecord, bytes] | None] = [None] * len(offsets)
        queue, first = self._queues.find((topic, queue_id)), min(offsets)
        count = max(offsets) + 1 - first
        if queue is None or first < queue.min_offset or first + count > queue.max_offset or count > _MOST_UNITS:
            return nothing
        try:
            units = list(queue.units(first, count))
            if len(units) < count:
                return nothing
            places = [units[offset - first] for offset in offsets]
            begin = min(place[0] for place in places)
            end = max(place[0] + place[1] for place in places)
            data = self._log.read(begin, end - begin) if end - begin <= _MOST_BYTES else None
        except OSError:
            return nothing
        if data is None:
            return nothing
        return [
            self._found(queue, offset, data[at - begin : at - begin + size], at)
            for offset, (at, size, _) in zip(offsets, places, strict=True)
        ]

    def _found(self, queue: ConsumeQueue, offset: int, data: bytes, position: int) -> tuple[LogRecord, bytes] | None:
        record = self.check.look(data, position)
        if record is None or record.size != len(data) or record.queue_offset != offset:
            return None
        return (record, data) if (record.topic, record.queue_id) == (queue.topic_bytes, queue.queue_id) else None

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Offset of the oldest message of a queue; 0 for an unknown one."""
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Offset behind the newest message that can be read; 0 for an unknown queue."""
        queue = self._queues.find((topic, queue_id))
        return 0 if queue is None else queue.max_offset

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: BoundaryType = BoundaryType.LOWER
    ) -> int:
        """LOWER: the first message stored at or after a time; UPPER: the last one stored at or before it."""
        queue = self._queues.find((topic, queue_id))
        if queue is None:
            return 0
        with translated(self._storage, "searching a queue"):
            return self._reader.offset_by_time(queue, timestamp, boundary)

    def position(self, topic: str, queue_id: int, offset: int) -> int | None:
        """The position of the message at an offset in the log; None if it is not there."""
        queue = self._queues.find((topic, queue_id))
        if queue is None or not 0 <= offset < queue.max_offset:
            return None
        try:  # as in `read`
            unit = queue.unit(offset)
        except OSError as exc:
            raise store_error(exc, "reading a queue", self._storage.describe("")) from exc
        return None if unit is None else unit[0]

    def units(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int, ExtEntry | None]]:
        """Position, size, and tags code of up to `count` messages from an offset on, and what is kept beyond that.

        They end at the end of a file of the queue. There are none before the first offset or behind the last one.
        """
        queue = self._queues.find((topic, queue_id))
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return []
        with translated(self._storage, "reading a queue"):
            ext = queue.ext
            return [
                (*unit, None if ext is None or not is_address(unit[2]) else ext.get(unit[2]))
                for unit in queue.units(offset, count)
            ]

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at an offset was stored, ms; -1 when it is not there."""
        queue = self._queues.find((topic, queue_id))
        if queue is None:
            return -1
        with translated(self._storage, "reading a queue"):
            return self._reader.store_time(queue, offset)

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """When the oldest message of a queue was stored, ms; -1 when the queue is empty."""
        return self.store_time(topic, queue_id, self.min_offset(topic, queue_id))

    @property
    def log_start(self) -> int:
        """Position of the oldest byte of the log."""
        return self._log.start

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether a message counts as being in memory: close enough to the end of the log."""
        queue = self._queues.find((topic, queue_id))
        return queue is not None and self._reader.is_in_memory(queue, offset)

    # --- topics

    def topics(self) -> set[str]:
        """Topics that have queues."""
        return self._queues.topics()

    def has_queues(self, topic: str) -> bool:
        """Whether a topic has queues: one that never had a message has none."""
        return self._queues.has_topic(topic)

    def queue_ids(self, topic: str) -> list[int]:
        """Numbers of the queues of a topic."""
        return sorted(queue.queue_id for queue in self._queues.of_topic(topic))
