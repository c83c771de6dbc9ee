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

    def sound(
        self, queue: ConsumeQueue, offset: int, data: bytes, ranges: Iterable[tuple[int, int]], count: int
    ) -> Sound | None:
        """Look at what was read of a queue from an offset on.

        Args:
            queue: The queue.
            offset: Where the read began; messages that nobody wanted were passed over.
            data: The records.
            ranges: Where they stand in the log.
            count: How many there should be.

        Returns:
            None when all of it is as it was written; else what stands before the first damage.

        Raises:
            StoreCorruptError: The first message is damaged, or is not the one that belongs there.
        """
        at, found, position = 0, 0, -1
        for position, end in ranges:
            while position < end and (record := self._check(data, at, position)) is not None:
                belongs = (record.topic, record.queue_id) == (queue.topic_bytes, queue.queue_id)
                if not belongs or record.queue_offset < offset:
                    break
                at, position, found = at + record.size, position + record.size, found + 1
                offset = record.queue_offset + 1
            if position != end:
                break
        if found == count:
            return None
        if not found:
            raise self._damaged(queue, offset, max(position, 0))
        return Sound(at, found, offset)

    def _damaged(self, queue: ConsumeQueue, offset: int, position: int) -> StoreCorruptError:
        file = self._log.row.find(position)
        path = self._log.row.folder if file is None else file.path
        where = self._storage.describe(path)
        return StoreCorruptError(
            f"{queue.topic} queue {queue.queue_id} cannot be read from offset {offset} on: {where} is damaged at "
            f"position {position}, or the queue is. Restore the file from a copy, or repair the store",
            path=path,
            offset=position - (0 if file is None else file.start),
        )
