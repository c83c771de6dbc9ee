"""Checks what is read of the messages that were there before this run: damage is told, and never delivered.

What this process wrote or recovered needs no second look. Older records are read from a disk that may have let them
rot, and recovery does not read them all; so the first reader that meets one finds out.
Plays no part of Java's, whose consumers check the checksums of bodies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.log_scan import RecordCheck

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.commit_log import CommitLog
    from rocketpy_broker_sim.store.consume_queue import ConsumeQueue

__all__ = ["ReadCheck", "Sound"]


class Sound(NamedTuple):
    """The sound messages at the beginning of a read.

    Attributes:
        size: Bytes of them.
        count: How many.
        next_offset: Offset behind the last one.
    """

    size: int
    count: int
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

    def sound(self, queue: ConsumeQueue, offset: int, data: bytes, ranges: Iterable[tuple[int, int]]) -> Sound | None:
        """Look at what was read of a queue from an offset on.

        Returns:
            None when all of it is as it was written; else what stands before the first damage.

        Raises:
            StoreCorruptError: The first message is damaged, or is not the one that belongs there.
        """
        at, count, begin = 0, 0, offset
        for position, end in ranges:
            while position < end:
                record = self._check(data, at, position)
                if (
                    record is None
                    or (record.topic, record.queue_id) != (queue.topic_bytes, queue.queue_id)
                    or record.queue_offset < offset
                ):
                    if not count:
                        raise self._damaged(queue, begin, position)
                    return Sound(at, count, offset)
                at, position, count, offset = at + record.size, position + record.size, count + 1, record.queue_offset + 1
        return None

    def _damaged(self, queue: ConsumeQueue, offset: int, position: int) -> StoreCorruptError:
        file = self._log.row.find(position)
        path = self._log.row.folder if file is None else file.path
        return StoreCorruptError(
            f"{queue.topic} queue {queue.queue_id} cannot be read from offset {offset} on: {self._storage.describe(path)} "
            f"is damaged at position {position}, or the queue is. Restore the file from a copy, or repair the store",
            path=path,
            offset=position - (0 if file is None else file.start),
        )
