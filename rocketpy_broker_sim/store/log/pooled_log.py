"""PooledLog: a commit log whose records go to buffers first; a service moves them to the files a moment later.

What is in a buffer alone counts as stored, and is lost when the process ends there: that is the bargain of this mode.
It cannot be read or flushed before it is in its file: `written` is how far the files have it.
Plays the part of the write buffer of DefaultMappedFile and of its commit.
"""

from __future__ import annotations

import errno
import os
from _thread import allocate_lock
from typing import TYPE_CHECKING

from rocketpy.logs import get_logger
from rocketpy_broker_sim.config import BrokerRole, FlushDiskType
from rocketpy_broker_sim.store.disk.failure import store_error
from rocketpy_broker_sim.store.log.commit_log import FOLDER, CommitLog
from rocketpy_broker_sim.store.log.transient_pool import TransientBuffer, TransientPool

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig

__all__ = ["PooledLog", "commit_log_of"]

PAGE = 4096
_logger = get_logger(__name__)


def commit_log_of(storage: Storage, config: MessageStoreConfig) -> CommitLog:
    """The kind of log that the settings ask for: buffers only for a master that does not flush before it answers."""
    pooled = (
        config.transient_store_pool_enable
        and config.flush_disk_type is FlushDiskType.ASYNC_FLUSH
        and config.broker_role is not BrokerRole.SLAVE
    )
    if pooled:
        return PooledLog(storage, config)
    if config.transient_store_pool_enable:
        _logger.warning(
            "transientStorePoolEnable has no effect with flushDiskType=%s and brokerRole=%s: messages are written to "
            "the files at once; it is for a master with ASYNC_FLUSH",
            config.flush_disk_type,
            config.broker_role,
        )
    return CommitLog(storage, config.mapped_file_size_commit_log)


class PooledLog(CommitLog):
    """A commit log with buffers.

    Attributes:
        pool: The buffers.
        buffered: (position, store timestamp of the last record) up to which records are in buffers or files.
    """

    def __init__(self, storage: Storage, config: MessageStoreConfig) -> None:
        super().__init__(storage, config.mapped_file_size_commit_log)
        self._config = config
        self.pool = TransientPool(config.transient_store_pool_size, config.mapped_file_size_commit_log)
        self.buffered = (0, 0)
        self._buffers: dict[int, TransientBuffer] = {}
        self._moving = allocate_lock()

    # --- appending: for the loop

    def reset(self, position: int, store_timestamp: int, flushed: int) -> None:
        """Go on at `position` after loading."""
        self.buffered = (position, store_timestamp)
        super().reset(position, store_timestamp, flushed)

    @property
    def appended(self) -> int:
        return self.buffered[0]

    def _write(self, start: int, records: list[bytes]) -> None:
        self._is_creating = True
        buffer = self._buffers.get(start - start % self.row.file_size) or self._take_buffer(start)
        self._is_creating = False
        buffer.write(b"".join(records) if len(records) > 1 else records[0], start)

    def _take_buffer(self, position: int) -> TransientBuffer:
        """Make the file that holds `position`, and take a buffer for it."""
        file = self.row.find_or_create(position)
        buffer = self.pool.take(file.start)
        if buffer is None and not self._config.fast_fail_if_no_buffer_in_store_pool:
            self._move()  # it holds the loop up; but else everybody would be refused
            buffer = self.pool.take(file.start)
        if buffer is None:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        self._buffers[file.start] = buffer
        return buffer

    def _note_written(self, store_timestamp: int) -> None:
        self.buffered = (self.position, store_timestamp)

    def _undo(self, *, again: bool) -> None:
        """The files have nothing of what is taken back."""
        self.is_torn = False

    # --- moving: for one thread at a time, while the loop goes on appending

    def move(self, least_pages: int = 0) -> None:
        """Return when the files have what was in the buffers, if that were so many pages.

        Raises:
            StoreError: The disk refused; the buffers keep what they have, and a later call tries it again.
        """
        if self.buffered[0] // PAGE - self.written[0] // PAGE < least_pages:
            return
        try:
            self._move()
        except OSError as exc:
            raise store_error(exc, "moving messages from a buffer to the commit log", self._describe()) from exc

    def _move(self) -> None:
        with self._moving:  # the loop may have to do it itself
            self._move_all()

    def _move_all(self) -> None:
        end, timestamp = self.buffered
        at = self.written[0]
        for start, buffer in list(self._buffers.items()):
            stop = min(end, start + self.row.file_size)
            begin = max(at, start)
            file = self.row.find(start)
            if begin < stop and file is not None:
                with buffer.part(begin, stop) as part:
                    file.write(part, begin - start)
        self.written = (end, timestamp)
        for start in [start for start in list(self._buffers) if start + self.row.file_size <= end]:
            self.pool.give_back(self._buffers.pop(start))

    def _describe(self) -> str:
        return self._storage.describe(FOLDER)

    def close(self) -> None:
        """Close the files, and forget what is in buffers alone."""
        super().close()
        while self._buffers:
            self.pool.give_back(self._buffers.popitem()[1])
        self.pool.close()
