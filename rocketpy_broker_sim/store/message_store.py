"""The message store: takes messages, keeps them, gives them back. The one door to everything in this package.

It takes messages and opens and closes everything; reading, queries by key, flushing, catching up with the index and
retention are parts with a name. One loop calls put, commit_pending, reput and the reads; meanwhile one thread at a time
may flush the log, and one the queues. It has no timers, tasks or threads of its own: the services of the broker drive
it. Plays the part of DefaultMessageStore.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.config import FlushDiskType, MessageStoreConfig
from rocketpy_broker_sim.store.append import MessageWriter
from rocketpy_broker_sim.store.clock import StoredClock
from rocketpy_broker_sim.store.deleted_topics import DeletedTopics
from rocketpy_broker_sim.store.disk.failure import store_error, translated
from rocketpy_broker_sim.store.disk.files_ahead import FilesAhead
from rocketpy_broker_sim.store.disk.row_loading import ALL_BUT_LAST
from rocketpy_broker_sim.store.dispatch import CommitLogDispatcher
from rocketpy_broker_sim.store.flushing import StoreFlush
from rocketpy_broker_sim.store.index.catch_up import IndexCatchUp
from rocketpy_broker_sim.store.index.key_index import KeyIndex
from rocketpy_broker_sim.store.key_queries import KeyQueries
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.log.pooled_log import PooledLog, commit_log_of
from rocketpy_broker_sim.store.message_reads import MessageReads
from rocketpy_broker_sim.store.put_result import (
    Arrival,
    IncomingMessage,
    MessageRun,
    PlacedRun,
    PutMessageResult,
    PutMessageStatus,
)
from rocketpy_broker_sim.store.queue import consume_queue, consume_queue_ext
from rocketpy_broker_sim.store.queue.summary import load_queues, write_summary
from rocketpy_broker_sim.store.queue.table import QueueTable
from rocketpy_broker_sim.store.recovery import Recovery
from rocketpy_broker_sim.store.reput import Reput
from rocketpy_broker_sim.store.retention import Retention
from rocketpy_broker_sim.store.running_flags import RunningFlags
from rocketpy_broker_sim.store.steps import Steps, finish
from rocketpy_broker_sim.store.store_state import Phase, StoreState

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.checkpoint import Checkpoint
    from rocketpy_broker_sim.store.filtering import BitMaps
    from rocketpy_broker_sim.store.log.transient_pool import TransientPool

__all__ = ["MessageStore"]

ABORT = "abort"
LOCK = "lock"
_FOLDERS = {commit_log.FOLDER: "storePathCommitLog", consume_queue.FOLDER: "storePathRootDir"}
"""What a broker writes and another one must not, and the settings that say where it lies."""
INDEX_STEP = 100
"""Records that the index takes at a time, once it was held up by one with very many keys."""
DELETED_AT_STOP = 256
"""Queues of deleted topics whose files a stop still deletes; the next start deletes the others. This is a number and no
time, because a stop runs in a thread, where nobody can read the clock of the loop. A usual disk takes some 20 ms."""
_RUNNING = Phase.RUNNING
log = get_logger(__name__)


class MessageStore:
    """Commit log and consume queues of one broker, over one Storage.

    Attributes:
        config: Sizes and limits; limits may be changed at any time.
        reads: Gives messages by queue and by position, offsets and times.
        keys: Gives messages by their keys.
        flushing: Brings log, queues and index to the disk.
        retention: Takes out what has expired.
        index: Where the positions of messages are found by their keys.
        index_catch_up: Brings the index level with the log.
        state: How far its life is.
        flags: Why it is not read or written for the time being.
        clock: Knows how long what waits has waited.
        files_ahead: Makes the next file of the log ahead.
        was_unclean: Whether the last run did not end in order; known once it is loaded.
    """

    def __init__(
        self,
        storage: Storage,
        config: MessageStoreConfig,
        *,
        clock: StoredClock | None = None,
    ) -> None:
        """Nothing is touched before `load`.

        Args:
            storage: The directory.
            config: Sizes and limits.
            clock: Gives the stored times; without one they come from the wall clock alone.
        """
        self.config = config
        self.state = StoreState()
        self.flags = RunningFlags()
        self.clock = clock or StoredClock()
        self.was_unclean = False
        self._storage = storage
        self._log = commit_log_of(storage, config)
        ext_size = config.mapped_file_size_consume_queue_ext if config.enable_consume_queue_ext else 0
        self._queues = QueueTable(storage, config.mapped_file_size_consume_queue, ext_file_size=ext_size)
        self.reads = MessageReads(storage, config, self._log, self._queues, self.flags)
        self.files_ahead = FilesAhead(storage, config, self._log.row)
        self._arrived: list[Arrival] = []
        """What has arrived in calls that could not return it."""
        self._dispatcher = CommitLogDispatcher(self._queues)
        self._reput = Reput(storage, config, self._log, self._dispatcher, self.flags)
        self._writer = MessageWriter(config, self._log, self._queues, self.clock)
        self.index = KeyIndex(storage, config, self.flags)
        self.index_catch_up = IndexCatchUp(self.index, self._log, config, lambda: self._reput.done)
        self.keys = KeyQueries(storage, self.index, self.reads)
        self.flushing = StoreFlush(storage, self._log, self._queues, self.index, lambda: self._reput.done)
        self.retention = Retention(storage, config, self._log, self._queues, self.index, lambda: self.flushing.settled)
        self._deleted = DeletedTopics(storage)
        self._locks: list[Callable[[], None]] = []

    # --- opening and closing

    def load(self) -> None:
        """Lock the directory, take in its files and recover what a crash left.

        Raises:
            StoreError: The directory is in use by another broker, or cannot be read and written.
            StoreStateError: This store was loaded before.
            StoreCorruptError: Files are damaged in a way that must not be hidden.
        """
        self.state.advance(Phase.LOADED)
        try:
            self._lock()
            with translated(self._storage, "opening the store"):
                self._open()
        except BaseException:
            self.abandon()
            raise
        self.state.advance(Phase.RUNNING)

    def _lock(self) -> None:
        """Lock the directory with Apache's lock, and each folder that may lie elsewhere, and so be another's too."""
        with self._told("", "store directory", "storePathRootDir"):
            self._locks.append(self._storage.lock(LOCK))
        for folder, setting in _FOLDERS.items():
            with self._told(folder, "folder", setting):
                self._storage.make_dir(folder)
                self._locks.append(self._storage.lock_folder(folder))

    @contextmanager
    def _told(self, folder: str, kind: str, setting: str) -> Iterator[None]:
        """Tell what cannot be locked."""
        where = self._storage.describe(folder)
        try:
            yield
        except OSError as exc:
            if exc.errno == errno.EAGAIN:
                raise StoreError(
                    f"the {kind} {where} is in use by another broker: stop that one, or give this one a "
                    f"directory of its own ({setting})"
                ) from exc
            raise store_error(exc, "opening the store", self._storage.describe("")) from exc

    def _open(self) -> None:
        unclean = self.was_unclean = self._storage.exists(ABORT)
        checkpoint = self.flushing.load()
        if self.config.enable_consume_queue_ext:
            self._storage.make_dir(consume_queue_ext.FOLDER)
        self.reads.check.seal(checkpoint.sealed_from)
        safe = ALL_BUT_LAST if checkpoint.flushed is None else checkpoint.flushed
        self._log.row.load(safe=safe if unclean else None)
        load_queues(self._storage, self._queues, checkpoint, unclean=unclean)
        # From here on a crash leaves the mark, so that recovery is repeated with all care.
        self._storage.write_bytes_atomic(ABORT, str(os.getpid()).encode())
        self._deleted.load()
        recovery = Recovery(
            self._storage, self.config, self._log, self._queues, self._dispatcher, checkpoint, self._deleted
        )
        recovery.run(unclean=unclean)
        self._deleted.settle(self._log.start, self._log.written[0])
        self.clock.newest = self._log.written[1]
        self._reput.done = self._log.written
        self._open_index(checkpoint, unclean=unclean)
        self.state.advance(Phase.RECOVERED)
        # Not only what recovery changed: how records will be checked has to be known before the first is written.
        self.flushing.seal(sealed=self.config.enabled_append_prop_crc)
        self.flushing.flush_all()

    def _open_index(self, checkpoint: Checkpoint, *, unclean: bool) -> None:
        """Let the index catch up with the log, and follow it from here on."""
        end = self._log.written[0]
        self.index.load(checkpoint, self._log.start, end, unclean=unclean)
        if not self.config.message_index_enable:
            return
        self.index_catch_up.begin()
        self._dispatcher.readers.append(self.index.put)

    def close(self) -> StoreError | None:
        """Write, dispatch and flush everything, and take the mark of an unclean stop away if all of it succeeded.

        Returns:
            What the disk refused, if it did: the next start recovers then. None if all of it succeeded.
        """
        if not self.state.is_running:
            return None
        self.state.advance(Phase.SHUTTING_DOWN)
        try:
            self._finish()
        except StoreError as exc:
            log.error("the store was not closed cleanly and will be recovered at the next start: %s", exc)
            return exc
        finally:
            self.abandon()
        return None

    def abandon(self) -> None:
        """Close the files as they stand, as the end of the process would: the next start recovers."""
        if self.state.phase is not Phase.SHUT_DOWN:
            self.state.advance(Phase.SHUT_DOWN)
        self.files_ahead.close()
        self._log.close()
        self._queues.close()
        self.index.close()
        while self._locks:
            self._locks.pop()()

    def _finish(self) -> None:
        self.commit_pending()
        with translated(self._storage, "taking back a failed write"):
            self._log.mend()
        self.move_buffers()
        self._log.flush()
        self.reput()
        while self.can_reput:
            self.reput()
        self.index.seal(everything=True)
        with suppress(OSError):  # what the disk refuses is deleted by the next start
            self._queues.delete_leaving(DELETED_AT_STOP)
        self.flushing.flush_all()
        with translated(self._storage, "noting where the queues stand"):
            write_summary(self._storage, self._queues, self.flushing.checkpoint, self._log.start)
        with translated(self._storage, "removing the mark of a running broker"):
            self.files_ahead.discard()
            self._storage.unlink(ABORT)

    @property
    def is_writable(self) -> bool:
        """Whether messages are taken: running, nothing speaks against it, and the disk has not failed."""
        if self.flags.bits and not self.flags.is_writable:
            return False
        return self.state.phase is Phase.RUNNING and self._log.failure is None

    def keep_bit_maps(self, bit_maps: BitMaps) -> None:
        """From now on leave a bit map of each message in the extension of its queue, where there is one."""
        self._dispatcher.bit_maps = bit_maps

    # --- writing

    def put(self, message: IncomingMessage) -> PutMessageResult:
        """Give a message its place; it counts once `commit_pending` has returned.

        Raises:
            StoreError: The disk refused to make its queue.
        """
        # What `is_writable` would say of a store that is well, without asking it for every message.
        doubt = self.flags.bits or self.state.phase is not _RUNNING or self._log.failure is not None
        if doubt and not self.is_writable:
            return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        try:
            return self._writer.put(message)
        except OSError as exc:
            raise self._no_queue(exc) from exc

    def _no_queue(self, exc: OSError) -> StoreError:
        return store_error(exc, "making a queue", self._storage.describe(consume_queue.FOLDER))

    def open_queue(self, message: IncomingMessage, *, bounded: bool = True) -> PutMessageStatus | None:
        """Make the queue of a message that will be put later. Returns why it cannot be, None when it is there.

        Args:
            message: the message.
            bounded: False for what was taken long ago: its queue is made however many there are.

        Raises:
            StoreError: The disk refused.
        """
        try:
            return self._writer.open_queue(message, bounded=bounded)
        except OSError as exc:
            raise self._no_queue(exc) from exc

    def put_batch(self, message: IncomingMessage) -> PutMessageResult:
        """Give the items of a batch consecutive places; they count together once `commit_pending` has returned.

        Raises:
            StoreError: The disk refused to make its queue.
        """
        if not self.is_writable:
            return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE)
        try:
            return self._writer.put_batch(message)
        except OSError as exc:
            raise self._no_queue(exc) from exc

    def put_run(self, run: MessageRun) -> PlacedRun | None:
        """Give messages their places at once; they count once `commit_pending` has returned.

        None, and nothing is done, unless all of it is as usual: then they are to be put one by one.
        """
        return self._writer.put_run(run) if self.is_writable else None

    def commit_pending(self) -> None:
        """Write all messages put since the last call, with one write a file.

        Raises:
            StoreError: The disk refused. None of them counts, and their offsets will be given again.
        """
        self._reput.add(self._writer.commit())

    def reput(self) -> Sequence[Arrival]:
        """Bring written messages into their queues; with SYNC_FLUSH only what has been flushed.

        When many could not be brought there before, it brings a part of them: `can_reput` says whether more are left.
        So it does with the index, behind a message with very many keys.

        Returns:
            The queues that have new messages since the last call, with what has arrived in each.

        Raises:
            StoreError: The disk refused. Messages are taken nevertheless, and a later call tries it again; after
                thirty failures in a row no more are taken until one succeeds.
        """
        self._dispatch()
        arrived, self._arrived = self._arrived, []
        return arrived

    def _dispatch(self) -> None:
        """Bring written messages into their queues, and keep what has arrived for the next `reput`."""
        self._arrived += self._reput.step(self._visible_end)
        if self.index.is_busy:
            self.index_catch_up.step(INDEX_STEP)

    @property
    def _visible_end(self) -> int:
        """Up to where consumers may see messages: what a power loss could still take away stays hidden."""
        sync = self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        return self._log.flushed if sync else self._log.written[0]

    @property
    def can_reput(self) -> bool:
        """Whether another `reput` would find something to do."""
        return self.index.is_busy or self.is_behind

    @property
    def is_behind(self) -> bool:
        """Whether messages that consumers may see are not in their queues yet."""
        return self._reput.behind(self._visible_end) > 0

    @property
    def dispatch_behind(self) -> int:
        """Bytes of the log whose messages are not in their queues yet."""
        return self._reput.behind(self._log.written[0])

    @property
    def dispatch_most_waiting(self) -> int:
        """The most dispatches that ever waited in memory at a time."""
        return self._reput.most_waiting

    # --- buffers in memory

    @property
    def pool(self) -> TransientPool | None:
        """The buffers that messages go to first; None where they go to the files at once."""
        return self._log.pool if isinstance(self._log, PooledLog) else None

    @property
    def buffered_position(self) -> int:
        """Up to where the log is taken; further than it is written where there are buffers."""
        return self._log.appended

    def move_buffers(self, least_pages: int = 0) -> None:
        """Return when the files have what was in the buffers, if that are so many pages. For a thread.

        Raises:
            StoreError: The disk refused; the buffers keep what they have.
        """
        if isinstance(self._log, PooledLog):
            self._log.move(least_pages)

    # --- how far the log is

    @property
    def written_position(self) -> int:
        """Up to where the log is written."""
        return self._log.written[0]

    @property
    def flushed_position(self) -> int:
        """Up to where the disk has the log."""
        return self._log.flushed

    # --- topics

    def may_delete(self, topics: Collection[str]) -> bool:
        """Whether topics may be deleted: those that were before are remembered while the log has records of them."""
        return self._deleted.has_room(topics, self._log.start)

    def delete_topics(self, topics: Collection[str]) -> None:
        """Delete the queues of topics; their records stay in the log until that is cleaned."""
        finish(self.delete_topics_steps(topics))

    def delete_topics_steps(self, topics: Collection[str]) -> Steps[None]:
        """`delete_topics`, in steps. Before the first one ends nobody finds the queues any more; then their files go.

        What is cut short there is done by the next opening, or by deleting such a topic again.
        """
        if not topics:
            return
        self.commit_pending()
        self.move_buffers()  # what is left of the topics must end where the log does
        self._dispatch()
        with translated(self._storage, "deleting topics"):
            self._deleted.note(topics, self._log.start, self._log.written[0])
            self.flushing.forget_units([queue for topic in topics for queue in self._queues.of_topic(topic)])
            for topic in topics:
                self._reput.forget(topic)
                self._queues.take_out(topic)
            for topic in topics:
                yield from self._queues.delete_steps(topic)
