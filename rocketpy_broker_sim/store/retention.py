"""Taking out what has expired: files of the commit log, the oldest first, then what only led there.

The loop takes a file out of its row and the queues' first offsets follow; a thread removes it from the disk. Only files
that recovery would not read any more may go, so that a crash at any moment leaves a store that opens clean.
Plays the part of CommitLog.deleteExpiredFile, CleanConsumeQueueService and CorrectLogicOffsetService.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.cleaning import CleaningPlan, plan
from rocketpy_broker_sim.store.disk.failure import store_error
from rocketpy_broker_sim.store.index import file as index_file
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.queue import consume_queue

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
    from rocketpy_broker_sim.store.index.file import IndexFile
    from rocketpy_broker_sim.store.index.key_index import KeyIndex
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["Retention"]


class Retention:
    """What may go of one store."""

    def __init__(
        self,
        storage: Storage,
        config: MessageStoreConfig,
        log: CommitLog,
        queues: QueueTable,
        index: KeyIndex,
        settled: Callable[[], int],
    ) -> None:
        """Nothing is touched before it is asked for.

        Args:
            storage: The directory.
            config: Ages, hours and levels; may be changed at any time.
            log: The commit log.
            queues: The consume queues.
            index: The key index.
            settled: Says up to where the disk has log and queues, and the checkpoint says so.
        """
        self._storage = storage
        self._config = config
        self._log = log
        self._queues = queues
        self._index = index
        self._settled = settled
        self._is_unsettled = False  # whether a file was removed whose folder may not have reached the disk

    # --- for a thread

    def plan(self, now_ms: int, *, on_command: bool = False) -> CleaningPlan:
        """Look at the disk, and say what should go now.

        Raises:
            StoreError: The disk does not say.
        """
        try:
            usage = max(self._storage.usage(folder) for folder in (commit_log.FOLDER, consume_queue.FOLDER))
            files = self._log.row.oldest(self._settled(), self._config.delete_file_batch_max)
            modified = [self._storage.modified_ms(file.path) for file in files]
        except OSError as exc:
            raise store_error(exc, "looking for expired files", self._storage.describe("")) from exc
        return plan(self._config, usage, modified, now_ms, on_command=on_command)

    def remove(self, file: MappedFile) -> None:
        """Remove a file of the log that was taken out; it is gone for good when this returns.

        Raises:
            StoreError: The disk refused.
        """
        if self._is_unsettled:  # else a power loss could bring the one before back without this one
            self.settle(commit_log.FOLDER)
        self._is_unsettled = True
        try:
            file.delete()
        except OSError as exc:
            raise store_error(exc, "deleting an expired file", self._storage.describe(file.path)) from exc
        self.settle(commit_log.FOLDER)
        self._is_unsettled = False

    def settle(self, folder: str) -> None:
        """Return when a file that was deleted is gone for good, so that the next one may go.

        Were that one gone after a power loss and this one back, there would be a gap.

        Raises:
            StoreError: The disk refused.
        """
        try:
            self._storage.sync_dir(folder)
        except FileNotFoundError:
            return  # the whole topic was deleted meanwhile
        except OSError as exc:
            raise store_error(exc, "deleting expired files", self._storage.describe(folder)) from exc

    def remove_index_file(self, file: IndexFile) -> None:
        """Remove a file of the index that was taken out.

        Raises:
            StoreError: The disk refused; the file is found again at the next start.
        """
        try:
            file.delete()
        except OSError as exc:
            raise store_error(exc, "deleting an expired file", self._storage.describe(file.path)) from exc
        self.settle(index_file.FOLDER)

    # --- for the loop

    @property
    def log_start(self) -> int:
        """Where the log begins."""
        return self._log.row.start

    def take_log_file(self) -> MappedFile | None:
        """Take the oldest file of the log out of its row; None when none may go."""
        return self._log.row.take_first(self._settled())

    def put_back_log_file(self, file: MappedFile) -> None:
        """Take a file up again that could not be removed, unless it is gone, and only its folder was not flushed.

        If the disk does not say, it is not gone: the next try to remove it finds out.
        """
        try:
            is_gone = not self._storage.exists(file.path)
        except OSError:
            is_gone = False
        if not is_gone:
            self._log.row.put_first(file)

    def take_index_file(self) -> IndexFile | None:
        """Take the oldest file of the index out when none of its messages is left; None when there is no such file."""
        return self._index.take_expired(self._log.row.start)

    def queues(self) -> Iterator[ConsumeQueue]:
        """Those that there are now; some may be deleted before their turn comes."""
        return (queue for queue in self._queues if not queue.deleted)

    def correct_queue(self, queue: ConsumeQueue) -> None:
        """Let a queue begin where its records do now.

        Raises:
            StoreError: The disk refused to show where that is; the queue begins where it did.
        """
        try:
            queue.correct_min_offset(self._log.row.start)
        except OSError as exc:
            where = self._storage.describe(queue.row.folder)
            raise store_error(exc, "looking for where a queue begins now", where) from exc

    def delete_queue_file(self, queue: ConsumeQueue) -> str | None:
        """Delete the oldest file of a queue that leads nowhere any more. Small ones, so in place.

        Returns:
            The folder to settle before the next one; None when there was none to delete.

        Raises:
            StoreError: The disk refused.
        """
        try:
            return None if queue.deleted else queue.delete_expired()
        except OSError as exc:
            raise store_error(exc, "deleting an expired file", self._storage.describe(queue.row.folder)) from exc
