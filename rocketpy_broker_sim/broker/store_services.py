"""Flushing the store, one flush at a time, and group commit: sends that are answered when the disk has their message.

Flushes block, so they run in threads. Plays the part of GroupCommitService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.services import run_blocking
from rocketpy_broker_sim.broker.flush_thread import FlushThread
from rocketpy_broker_sim.store.disk.failure import FlushPostponedError

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.durability import Durability
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["Disk", "GroupCommit"]

AGAIN_AFTER = 1.0
"""Seconds to the next flush after one that failed."""
RETRY_AFTER = 0.2
"""Seconds to the next try of a flush that could not begin."""
_logger = get_logger(__name__)


class Disk:
    """Flushes the store: the log one flush at a time, and likewise the queues.

    Sends may wait for a flush of the log, and many queues take long: so the one never waits for the other.

    Args:
        store: what is flushed.

    Attributes:
        thread: Where the log is flushed while it is served; else in any thread.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._log_turn = trio.Lock()
        self._queue_turn = trio.Lock()
        self.thread = FlushThread()
        self._failed = False
        self._postponed = False

    async def flush_log(self) -> None:
        """Return when the disk has the log as it is written now.

        Raises:
            FlushPostponedError: it could not begin; nothing is lost, and a later call may succeed.
            StoreError: the disk failed, and nothing is stored any more until the broker is restarted.
        """
        async with self._log_turn:
            if self._store.flushed_position < self._store.written_position:
                await (self.thread.run if self.thread.is_open else run_blocking)(self._store.flushing.commit_log.flush)

    async def flush_taken(self) -> None:
        """Return when the disk has all messages that were taken, those too that are in buffers before the log.

        Raises:
            StoreError: as `flush_log`; or the buffers could not be moved, which may succeed later.
        """
        if self._store.written_position < self._store.buffered_position:
            async with self._log_turn:
                await run_blocking(self._store.move_buffers)
        await self.flush_log()

    async def flush_all(self) -> None:
        """Flush log, queues and checkpoint. Raises as `flush_log`."""
        async with self._queue_turn:
            self._store.flushing.prepare(everything=True)
            await self.flush_log()
            await run_blocking(self._store.flushing.flush_queues)

    async def flush_queues(self, least_pages: int) -> None:
        """Flush the queues with so many pages of new units, and write the checkpoint. Raises as `flush_log`."""
        async with self._queue_turn:
            self._store.flushing.prepare()
            await run_blocking(self._store.flushing.flush_queues, least_pages)

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


class GroupCommit:
    """Flushes whenever something was written, for sends that wait for it: one flush serves all that wait.

    Args:
        disk: does the flushing.
        store: says how far it is.
        turn: lets consumers read what was flushed.
        gate: says that something was written, and lets the answers go.
    """

    def __init__(self, disk: Disk, store: MessageStore, turn: Turn, gate: Durability) -> None:
        self._disk = disk
        self._store = store
        self._turn = turn
        self._gate = gate

    async def serve(self) -> None:
        """Flush until cancelled. While the disk fails, who waits is told so, and it is tried again every second."""
        done = self._store.flushed_position
        while True:
            await self._gate.written.reach(done + 1)
            try:
                await self._disk.flush_log()
            except FlushPostponedError as exc:
                await self._disk.wait_for_better_times(exc)  # answers wait on, up to their deadlines
                continue
            except StoreError as exc:
                count = self._gate.refuse()
                if count:
                    _logger.error("the messages of %d sends may be lost: %s", count, exc)
                await trio.sleep(AGAIN_AFTER)
                continue
            self._disk.note_success()
            done = self._store.flushed_position
            self._gate.release()
            self._turn.make_readable()
            await trio.lowlevel.checkpoint()
