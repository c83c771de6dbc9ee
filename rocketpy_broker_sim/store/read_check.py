"""Checks what is read of the messages that were there before this run: damage is told, and never delivered.

What this process wrote or recovered needs no second look. Older records are read from a disk that may have let them
rot, and recovery does not read them all; so the first reader that meets one finds out.
Plays no part of Java's, whose consumers check the checksums of bodies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.log.scan import RecordCheck

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.log.scan import LogRecord
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue

__all__ = ["ReadCheck", "Sound"]


class Sound(NamedTuple):
    """The sound messages at the beginning of a read.

    Attributes:
        size: Bytes of them.
        messages: How many.
        next_offset: Offset behind the last one.
    """

    size: int
    messages: int
    next_offset: int


class ReadCheck:
    """Checks records of one store."""

    def __init__(self, storage: Storage, config: MessageStoreConfig, commit_log: CommitLog) -> None:
        self._storage = storage
        self._config = config
        self._log = commit_log
        self._check = RecordCheck(config)

    def seal(self, sealed_from: int | None) -> None:
        """Let every record from a position on need its own checksum."""
        self._check = RecordCheck(self._config, sealed_from)

    def look(self, data: bytes, position: int) -> LogRecord | None:
        """What a record says that stands at this position; None when it is damaged."""
        return self._check(data, 0, position)

    def record(self, data: bytes, position: int) -> None:
        """Look at one record that was read by its position.

        Raises:
            StoreCorruptError: It is damaged.
        """
        if self._check(data, 0, position) is None:
            path, where = self._place(position)
            raise StoreCorruptError(
                f"{where} is damaged at position {position}: restore the file from a copy, or repair the store",
                path=path,
                offset=self._within(position),
            )

    def sound(
        self,
        queue: ConsumeQueue,
        offset: int,
        data: bytes,
        ranges: Iterable[tuple[int, int]],
        count: int,
        passed: int | None,
    ) -> Sound | None:
        """Look at what was read of a queue from an offset on.

        Args:
            queue: The queue.
            offset: Where the read began.
            data: The records.
            ranges: Where they stand in the log.
            count: How many there should be.
            passed: How many units were gone over, when all of them were wanted; None when some may not have been.

        Returns:
            None when all of it is as it was written; else what stands before the first damage.

        Raises:
            StoreCorruptError: The first message is damaged, or is not the one that belongs there.
        """
        at, found, begin = 0, 0, offset
        for position, end in ranges:
            while position < end and (record := self._check(data, at, position)) is not None:
                if not _belongs(record, queue, offset, exactly=passed is not None):
                    break
                at, position, found = at + record.size, position + record.size, found + 1
                offset = record.queue_offset + 1
            if position != end:
                break
        if found == count and passed in (None, offset - begin):
            return None
        if found:
            return Sound(at, found, offset)
        unit = queue.unit(begin)
        if unit is None or 0 < unit[0] + unit[1] <= self._log.start:
            return None  # it is not in the log any more, though its unit still is in the queue
        # Where all were wanted it is the first one, of which nothing was read when it leads out of the log.
        raise self._damaged(queue, begin, position if passed is None else unit[0])

    def _damaged(self, queue: ConsumeQueue, offset: int, position: int) -> StoreCorruptError:
        path, where = self._place(position)
        return StoreCorruptError(
            f"{queue.topic} queue {queue.queue_id} cannot be read from offset {offset} on: {where} is damaged at "
            f"position {position}, or the queue is. Restore the file from a copy, or repair the store",
            path=path,
            offset=self._within(position),
        )

    def _place(self, position: int) -> tuple[str, str]:
        """The file that holds a position: in the storage, and in words."""
        file = self._log.row.find(position)
        path = self._log.row.folder if file is None else file.path
        return path, self._storage.describe(path)

    def _within(self, position: int) -> int:
        """Where in its file a position is."""
        file = self._log.row.find(position)
        return position - (0 if file is None else file.start)


def _belongs(record: LogRecord, queue: ConsumeQueue, offset: int, *, exactly: bool) -> bool:
    """Whether a record is of a queue, and its next one, or any later one where some were not wanted."""
    if (record.topic, record.queue_id) != (queue.topic_bytes, queue.queue_id):
        return False
    return record.queue_offset == offset if exactly else record.queue_offset >= offset
