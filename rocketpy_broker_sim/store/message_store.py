"""The message store: takes messages, keeps them, gives them back. The one door to everything in this package.

One loop calls put, commit_pending, reput and the reads; one thread at a time may call flush or flush_commit_log
meanwhile. It has no timers, tasks or threads of its own: the services of the broker drive it.
Plays the part of DefaultMessageStore.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.wire.enums import BoundaryType
from rocketpy_broker_sim.config import FlushDiskType, MessageStoreConfig
from rocketpy_broker_sim.store import consume_queue
from rocketpy_broker_sim.store.append import MessageWriter
from rocketpy_broker_sim.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from rocketpy_broker_sim.store.commit_log import CommitLog
from rocketpy_broker_sim.store.dispatch import Dispatcher
from rocketpy_broker_sim.store.failure import store_error
from rocketpy_broker_sim.store.put_result import (
    Arrival,
    GetMessageResult,
    IncomingMessage,
    Match,
    PutMessageResult,
    PutMessageStatus,
)
from rocketpy_broker_sim.store.queue_table import QueueTable
from rocketpy_broker_sim.store.reading import MAX_PULL_BYTES, QueueReader
from rocketpy_broker_sim.store.recovery import Recovery

if TYPE_CHECKING:
    from rocketpy.seams import Storage

__all__ = ["MessageStore"]

ABORT = "abort"
LOCK = "lock"
log = get_logger(__name__)


def _ignore(arrival: Arrival) -> None:
    """Stand in where nobody waits for messages."""


class MessageStore:
    """Commit log and consume queues of one broker, over one Storage.

    Attributes:
        config: Sizes and limits; limits may be changed at any time.
    """

    def __init__(
        self, storage: Storage, config: MessageStoreConfig, *, on_arrival: Callable[[Arrival], None] = _ignore
    ) -> None:
        """Nothing is touched before `load`.

        Args:
            storage: The directory.
            config: Sizes and limits.
            on_arrival: Called by `reput` for every queue that got new messages.
        """
        self._storage = storage
        self.config = config
        self._on_arrival = on_arrival
        self._log = CommitLog(storage, config.mapped_file_size_commit_log)
        self._queues = QueueTable(storage, config.mapped_file_size_consume_queue)
        self._dispatcher = Dispatcher(self._queues)
        self._writer = MessageWriter(config, self._log, self._queues)
        self._reader = QueueReader(config, self._log, self._queues)
        self._checkpoint = Checkpoint()
        self._dispatched = (0, 0)
        self._dispatch_failed = False
        self._release_lock: Callable[[], None] | None = None
        self._is_open = False

    # --- opening and closing

    def load(self) -> None:
        """Lock the directory, take in its files and recover what a crash left.

        Raises:
            StoreError: The directory is in use by another broker, or cannot be read and written.
            StoreCorruptError: Files are damaged in a way that must not be hidden.
        """
        self._release_lock = self._lock()
        try:
            with self._translated("opening the store", ""):
                self._open()
        except BaseException:
            self._close_files()
            raise
        self._is_open = True

    def _lock(self) -> Callable[[], None]:
        where = self._storage.describe("")
        try:
            return self._storage.lock(LOCK)
        except OSError as exc:
            if exc.errno == errno.EAGAIN:
                raise StoreError(
                    f"the store directory {where} is in use by another broker: stop that one, or give this one a "
                    "directory of its own (storePathRootDir)"
                ) from exc
            raise store_error(exc, "opening the store", where) from exc

    def _open(self) -> None:
        unclean = self._storage.exists(ABORT)
        self._log.row.load(mend=unclean)
        self._queues.load(mend=unclean)
        self._checkpoint = read_checkpoint(self._storage)
        # From here on a crash leaves the mark, so that recovery is repeated with all care.
        self._storage.write_bytes_atomic(ABORT, str(os.getpid()).encode())
        recovery = Recovery(self._storage, self.config, self._log, self._queues, self._dispatcher, self._checkpoint)
        recovery.run(unclean=unclean)
        self._writer.timestamp = self._log.written[1]
        self._dispatched = self._log.written
        if recovery.changed or self._log.flushed < self._log.written[0]:
            self._flush_all()

    def close(self) -> None:
        """Write, dispatch and flush everything, and take the mark of an unclean stop away if all of it succeeded."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._finish()
        except StoreError as exc:
            log.error("the store was not closed cleanly and will be recovered at the next start: %s", exc)
        finally:
            self._close_files()

    def abandon(self) -> None:
        """Close the files as they stand, as the end of the process would: the next start recovers."""
        self._is_open = False
        self._close_files()

    def _finish(self) -> None:
        self._writer.commit()
        self._log.flush()
        self.reput()
        self._flush_all()
        with self._translated("removing the mark of a running broker", ABORT):
            self._storage.unlink(ABORT)

    def _close_files(self) -> None:
        self._log.close()
        self._queues.close()
        if self._release_lock is not None:
            self._release_lock()
            self._release_lock = None

    @property
    def is_writable(self) -> bool:
        """Whether messages are taken: open, and the disk has not failed."""
        return self._is_open and self._log.failure is None and not self._dispatch_failed

    # --- writing

    def put(self, message: IncomingMessage) -> PutMessageResult:
        """Give a message its place; it counts once `commit_pending` has returned."""
        if not self._is_open or self._log.failure is not None or self._dispatch_failed:
            return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        return self._writer.put(message)

    def put_batch(self, message: IncomingMessage) -> PutMessageResult:
        """Give the items of a batch consecutive places; they count together once `commit_pending` has returned."""
        if not self.is_writable:
            return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        return self._writer.put_batch(message)

    def commit_pending(self) -> None:
        """Write all messages put since the last call, with one write a file.

        Raises:
            StoreError: The disk refused. None of them counts, and their offsets will be given again.
        """
        self._writer.commit()

    def reput(self) -> None:
        """Bring written messages into their queues and tell of them; with SYNC_FLUSH only what has been flushed.

        Raises:
            StoreError: The disk refused. Nothing is taken any more until a later call succeeds.
        """
        requests = self._writer.take_pending(self._visible_end())
        if not requests:
            return
        try:
            arrivals = self._dispatcher.dispatch(requests)
        except OSError as exc:
            self._writer.give_back_pending(requests)
            self._dispatch_failed = True
            raise store_error(
                exc, "writing to the consume queues", self._storage.describe(consume_queue.FOLDER)
            ) from exc
        self._dispatch_failed = False
        last = requests[-1]
        self._dispatched = (last.position + last.size, last.store_timestamp)
        for arrival in arrivals:
            self._on_arrival(arrival)

    def _visible_end(self) -> int | None:
        """Up to where consumers may see messages: what a power loss could still take away stays hidden."""
        return self._log.flushed if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH else None

    @property
    def dispatch_behind(self) -> int:
        """Bytes of the log whose messages are not in their queues yet."""
        return self._log.written[0] - self._dispatched[0] if self._writer.pending else 0

    # --- the disk

    @property
    def written_position(self) -> int:
        """Up to where the log is written."""
        return self._log.written[0]

    @property
    def flushed_position(self) -> int:
        """Up to where the disk has the log."""
        return self._log.flushed

    def flush_commit_log(self) -> None:
        """Return when the log as written now has reached the disk. For a thread; the loop may go on putting.

        Raises:
            StoreError: The disk failed, now or before; nothing is taken any more until the store is opened again.
        """
        self._log.flush()

    def flush(self) -> None:
        """Return when log and queues as written now have reached the disk, and the checkpoint says so. For a thread.

        Raises:
            StoreError: As for `flush_commit_log`.
        """
        self._flush_all()

    def _flush_all(self) -> None:
        written, dispatched = self._log.written, self._dispatched  # before flushing: what is later may not be covered
        self._log.flush()
        try:
            self._queues.flush()
            self._write_checkpoint(written, dispatched)
        except OSError as exc:
            where = self._storage.describe(consume_queue.FOLDER)
            self._log.failure = store_error(exc, "flushing the consume queues", where, fatal=True)
            raise self._log.failure from exc

    def _write_checkpoint(self, written: tuple[int, int], dispatched: tuple[int, int]) -> None:
        before = self._checkpoint
        if before.flushed == written[0] and before.dispatched == dispatched[0]:
            return
        checkpoint = Checkpoint(
            log_timestamp=written[1],
            queue_timestamp=dispatched[1],
            index_timestamp=before.index_timestamp,
            master_flushed=before.master_flushed,
            confirmed=before.confirmed,
            flushed=written[0],
            dispatched=dispatched[0],
        )
        write_checkpoint(self._storage, checkpoint)
        self._checkpoint = checkpoint

    # --- reading

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int = MAX_PULL_BYTES,
        match: Match | None = None,
    ) -> GetMessageResult:
        """Messages of a queue from `offset` on, or the reason why there are none.

        Args:
            topic: Its topic.
            queue_id: Its number.
            offset: Where to begin.
            max_count: How many at most; the limits for memory and disk may lower it.
            max_bytes: How many bytes at most, but always one message.
            match: Says by tags code which messages are wanted; the others are passed over.
        """
        with self._translated("reading messages", f"{consume_queue.FOLDER}/{topic}"):
            return self._reader.get(topic, queue_id, offset, max_count, max_bytes, match)

    def read(self, position: int, size: int | None = None) -> bytes | None:
        """The record at a position of the log; None when there is none."""
        with self._translated("reading the commit log", self._log.row.folder):
            return self._log.read(position, self._log.record_size(position) if size is None else size)

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
        with self._translated("searching a queue", queue.row.folder):
            return self._reader.offset_by_time(queue, timestamp, boundary)

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at an offset was stored, ms; -1 when it is not there."""
        queue = self._queues.find((topic, queue_id))
        if queue is None:
            return -1
        with self._translated("reading a queue", queue.row.folder):
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

    def queue_ids(self, topic: str) -> list[int]:
        """Numbers of the queues of a topic."""
        return sorted(queue.queue_id for queue in self._queues.of_topic(topic))

    def delete_topic(self, topic: str) -> None:
        """Delete the queues of a topic; its records stay in the log until that is cleaned."""
        self.commit_pending()
        self.reput()
        self._writer.forget_topic(topic)
        with self._translated("deleting a topic", f"{consume_queue.FOLDER}/{topic}"):
            self._queues.delete_topic(topic)

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete the queues of several topics."""
        for topic in topics:
            self.delete_topic(topic)

    @contextmanager
    def _translated(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise store_error(exc, doing, self._storage.describe("")) from exc
