"""StoreFlush: bringing log, queues and index to the disk, and the checkpoint that says how far they are there.

One thread at a time flushes the log, and one the queues; the loop may go on writing meanwhile. After a flush that
failed nothing is flushed or taken any more: what the disk really has is then unknown until the store is opened again.
One that could not begin, for want of files or memory, is tried again, and so is the writing of the checkpoint.
Plays the part of the flush methods of CommitLog and ConsumeQueueStore, and of the writes to StoreCheckpoint.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from rocketpy_broker_sim.store.checkpoint import PATH, Checkpoint, read_checkpoint, write_checkpoint
from rocketpy_broker_sim.store.disk.failure import FlushPostponedError, NotBegunError, store_error
from rocketpy_broker_sim.store.queue import consume_queue

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.index.key_index import KeyIndex
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["StoreFlush"]


class StoreFlush:
    """Flushes one store.

    Args:
        storage: The directory.
        commit_log: The log.
        queues: The consume queues.
        index: The key index.
        dispatched: Says up to where the queues have the log: position, and store time of the last record.

    Attributes:
        commit_log: The log; its `flush` brings it to the disk by itself.
        checkpoint: What the file says.
    """

    def __init__(
        self,
        storage: Storage,
        commit_log: CommitLog,
        queues: QueueTable,
        index: KeyIndex,
        dispatched: Callable[[], tuple[int, int]],
    ) -> None:
        self._storage = storage
        self.commit_log = commit_log
        self._queues = queues
        self._index = index
        self._dispatched = dispatched
        self.checkpoint = Checkpoint()
        self._sealed_from: int | None = None
        self._forgotten = 0  # how often units were: what was counted before that does not hold
        self._vouching = allocate_lock()  # a thread flushes, while the loop may delete a topic

    def load(self) -> Checkpoint:
        """Read the checkpoint."""
        self.checkpoint = read_checkpoint(self._storage)
        return self.checkpoint

    @property
    def settled(self) -> int:
        """Up to where the disk has log and queues for good: recovery begins there or later."""
        return self.checkpoint.settled or 0

    def seal(self, *, sealed: bool) -> None:
        """Note for the next checkpoint whether every record from here on will end with its own checksum."""
        before = self.checkpoint.sealed_from
        if sealed:
            self._sealed_from = (
                self.commit_log.written[0] if before is None else min(before, self.commit_log.written[0])
            )
        else:
            self._sealed_from = None

    def prepare(self, *, everything: bool = False) -> None:
        """Settle what the next flush brings to the disk beyond what is written. For the loop, before each of them.

        Args:
            everything: Let nothing wait for a later one.
        """
        self._index.seal(everything=everything)

    def flush_all(self) -> None:
        """Return when log and queues as written now have reached the disk, and the checkpoint says so. For a thread.

        Raises:
            FlushPostponedError: It could not begin; nothing is lost.
            StoreError: The disk failed, now or before; nothing is taken any more until the store is opened again.
        """
        self.commit_log.flush()
        self.flush_queues()

    def flush_queues(self, least_pages: int = 0) -> None:
        """Return when the queues have reached the disk; the checkpoint then vouches for them and for the flushed log.

        For a thread; the loop may go on putting.

        Args:
            least_pages: Leave out queues with fewer pages of new units; the checkpoint vouches for the log alone then.

        Raises:
            StoreError: As for `flush_all`.
        """
        if self.commit_log.failure is not None:
            raise self.commit_log.failure
        forgotten = self._forgotten
        units = self._queues.units  # first: fewer than there are by then are no reason for a doubt
        dispatched = self._dispatched()  # before flushing: what is later may not be covered
        where = self._storage.describe(consume_queue.FOLDER)
        try:
            self._queues.flush(least_pages)
        except NotBegunError as exc:
            raise FlushPostponedError(str(store_error(exc, "flushing the consume queues", where))) from exc
        except OSError as exc:
            self.commit_log.failure = store_error(exc, "flushing the consume queues", where, fatal=True)
            raise self.commit_log.failure from exc
        self._index.flush(self.commit_log.flushed)
        with self._vouching:
            self._vouch(dispatched if not least_pages else None, units if forgotten == self._forgotten else None)

    def forget_units(self, queues: Sequence[ConsumeQueue]) -> None:
        """Let the checkpoint not count the units of queues any more, which are about to be deleted. For the loop.

        Those of queues without messages are known to the unit. Others may have got some since it was written; then it
        says nothing until the next thorough flush.

        Raises:
            FlushPostponedError: The checkpoint could not be written, and nothing was forgotten.
        """
        with self._vouching:
            gone = self._queues.forget_units(queues)
            self._forgotten += 1  # then: a flush that does not see this has seen them, and vouches before or not at all
            units = self.checkpoint.units
            if units is None or not gone:
                return
            has_messages = any(queue.max_offset > queue.min_offset for queue in queues)
            checkpoint = attrs.evolve(self.checkpoint, units=None if has_messages else max(0, units - gone))
            try:
                self._write_checkpoint(checkpoint)
            except FlushPostponedError:
                self._queues.units += gone
                raise

    def _vouch(self, dispatched: tuple[int, int] | None, units: int | None) -> None:
        """Write the checkpoint when it has something new to say."""
        before = self.checkpoint
        if dispatched is None:
            dispatched, units = (before.dispatched or 0, before.queue_timestamp), before.units
        checkpoint = attrs.evolve(
            before,
            # Before the position: the log may be flushed on meanwhile, and too early a time only means more to check.
            log_timestamp=self.commit_log.flushed_timestamp,
            queue_timestamp=dispatched[1],
            index_timestamp=self._index.progress.full_timestamp,
            flushed=self.commit_log.flushed,
            dispatched=dispatched[0],
            sealed_from=self._sealed_from,
            units=units,
            indexed=self._index.progress.position,
            index_end=self._index.progress.end,
        )
        if checkpoint != before:
            self._write_checkpoint(checkpoint)

    def _write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Let the file say something else.

        An error ends nothing: both what the file said and what it was to say are true, and it is written whole with the
        next flush.

        Raises:
            FlushPostponedError: The disk refused.
        """
        try:
            write_checkpoint(self._storage, checkpoint)
        except OSError as exc:
            where = self._storage.describe(PATH)
            raise FlushPostponedError(str(store_error(exc, "writing the checkpoint", where))) from exc
        self.checkpoint = checkpoint
