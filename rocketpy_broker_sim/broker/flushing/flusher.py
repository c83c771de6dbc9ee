"""StoreFlusher: flushes the store in threads, one flush at a time.

All services that flush do it here. Plays the part of the flush methods of DefaultMessageStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.logs import get_logger
from rocketpy.services import run_blocking
from rocketpy_broker_sim.broker.flushing.thread import FlushThread

if TYPE_CHECKING:
    from rocketpy.errors import StoreError
    from rocketpy_broker_sim.store.disk.failure import FlushPostponedError
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["StoreFlusher"]

RETRY_AFTER = 0.2
"""Seconds to the next attempt of a flush that could not begin."""
_logger = get_logger(__name__)


class StoreFlusher:
    """Flushes the store: the log one flush at a time, and likewise the queues.

    Sends may wait for a flush of the log, and many queues take long: so the one never waits for the other.

    Args:
        store: what is flushed.

    Attributes:
        thread: Where the log is flushed while it is served; else in any thread.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._flushing = store.flushing
        self._log_lock = trio.Lock()
        self._queue_lock = trio.Lock()
        self.thread = FlushThread()
        self._failed = False
        self._postponed = False

    async def flush_log(self) -> None:
        """Return when the disk has the log as it is written now.

        Raises:
            FlushPostponedError: it could not begin; nothing is lost, and a later call may succeed.
            StoreError: the disk failed, and nothing is stored any more until the broker is restarted.
        """
        async with self._log_lock:
            if self._store.flushed_position < self._store.written_position:
                await (self.thread.run if self.thread.is_open else run_blocking)(self._flushing.commit_log.flush)

    async def flush_taken(self) -> None:
        """Return when the disk has all messages that were taken, those too that are in buffers before the log.

        Raises:
            StoreError: as `flush_log`; or the buffers could not be moved, which may succeed later.
        """
        if self._store.written_position < self._store.buffered_position:
            async with self._log_lock:
                await run_blocking(self._store.move_buffers)
        await self.flush_log()

    async def flush_all(self) -> None:
        """Flush log, queues and checkpoint. Raises as `flush_log`."""
        async with self._queue_lock:
            self._flushing.prepare(everything=True)
            await self.flush_log()
            await run_blocking(self._flushing.flush_queues)

    async def flush_queues(self, least_pages: int) -> None:
        """Flush the queues with so many pages of new units, and write the checkpoint. Raises as `flush_log`."""
        async with self._queue_lock:
            self._flushing.prepare()
            await run_blocking(self._flushing.flush_queues, least_pages)

    async def wait_for_better_times(self, exc: FlushPostponedError) -> None:
        """Return when it is time to try a flush again that could not begin; said once, until one succeeds."""
        if not self._postponed:
            _logger.error("%s; it is tried again until it succeeds", exc)
        self._postponed = True
        await trio.sleep(RETRY_AFTER)

    def note_success(self) -> None:
        """A flush succeeded."""
        if self._postponed:
            self._postponed = False
            _logger.warning("the store is flushed again")

    def note_failure(self, exc: StoreError) -> None:
        """Tell the operator once that the disk failed; the broker goes on giving what it has."""
        if not self._failed:
            _logger.error("%s", exc)
        self._failed = True
