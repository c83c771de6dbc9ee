"""When to flush: the log in the background or for sends that wait, and the consume queues.

Nothing ticks: a service in the background sleeps until something was written that it has to see to, lets its interval
pass so that more can gather, and flushes when there are enough pages or too much time has passed. Group commit flushes
whenever something was written. Plays the part of FlushRealTimeService, FlushConsumeQueueService and GroupCommitService.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.disk.failure import FlushPostponedError

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flushing.flusher import StoreFlusher
    from rocketpy_broker_sim.broker.flushing.gate import Durability, Progress
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["PAGE", "GroupCommit", "LogFlush", "QueueFlush"]

PAGE = 4096
AGAIN_AFTER = 1.0
"""Seconds to the next flush after one that failed."""
_logger = get_logger(__name__)


class LogFlush:
    """Flushes the log every so often, when sends do not wait for it.

    Args:
        store: what is flushed.
        flusher: does it, one flush at a time.
        config: how often; may be changed at any time.
        written: says when there is something to flush.
    """

    def __init__(
        self, store: MessageStore, flusher: StoreFlusher, config: MessageStoreConfig, written: Progress
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._config = config
        self._written = written
        self._thorough_at = -math.inf

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Flush until cancelled, or until the disk fails: then nothing is written any more either."""
        try:
            while True:
                await self._written.reach(self._store.flushed_position + 1)
                await self._gather()
                try:
                    await self._flusher.flush_log()
                except FlushPostponedError as exc:
                    await self._flusher.wait_for_better_times(exc)
                else:
                    self._flusher.note_success()
        except StoreError as exc:
            self._flusher.note_failure(exc)

    async def _gather(self) -> None:
        """Let an interval pass, then wait until there are enough pages, or it is time to flush what there is."""
        config = self._config
        if config.flush_commit_log_timed or not config.wake_flush_when_put_message:
            await trio.sleep(config.flush_interval_commit_log / 1000)
        enough = (self._store.flushed_position // PAGE + config.flush_commit_log_least_pages) * PAGE
        with trio.move_on_at(self._thorough_at + config.flush_commit_log_thorough_interval / 1000) as scope:
            await self._written.reach(enough)
        if scope.cancelled_caught:
            self._thorough_at = trio.current_time()


class QueueFlush:
    """Flushes the consume queues every so often, and writes the checkpoint after it.

    Args: as for `LogFlush`.
    """

    def __init__(
        self, store: MessageStore, flusher: StoreFlusher, config: MessageStoreConfig, written: Progress
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._config = config
        self._written = written
        self._thorough_at = -math.inf
        self._seen = store.written_position

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Flush until cancelled, or until the disk fails."""
        self._seen = self._store.flushed_position
        try:
            while True:
                await self._written.reach(self._seen + 1)
                await trio.sleep(self._config.flush_interval_consume_queue / 1000)
                try:
                    await self._flush()
                except FlushPostponedError as exc:
                    self._seen = min(self._seen, self._store.written_position - 1)  # there is something to do still
                    await self._flusher.wait_for_better_times(exc)
                else:
                    self._flusher.note_success()
        except StoreError as exc:
            self._flusher.note_failure(exc)

    async def _flush(self) -> None:
        """Flush the queues with enough new pages, or all of them when it is time.

        Then the log goes first, so that the checkpoint vouches for everything there was when nothing more comes.
        """
        due = self._thorough_at + self._config.flush_consume_queue_thorough_interval / 1000
        self._seen = self._store.written_position
        if trio.current_time() < due:
            await self._flusher.flush_queues(self._config.flush_consume_queue_least_pages)
            with trio.move_on_at(due) as scope:
                await self._written.reach(self._seen + 1)
            if not scope.cancelled_caught:
                return
            self._seen = self._store.written_position
        await self._flusher.flush_all()
        self._thorough_at = trio.current_time()


class GroupCommit:
    """Flushes whenever something was written, for sends that wait for it: one flush serves all that wait.

    Args:
        flusher: does the flushing.
        store: says how far it is.
        gate: says that something was written, and lets the answers go.
        make_readable: lets consumers read what was flushed.
    """

    def __init__(
        self, flusher: StoreFlusher, store: MessageStore, gate: Durability, make_readable: Callable[[], None]
    ) -> None:
        self._flusher = flusher
        self._store = store
        self._gate = gate
        self._make_readable = make_readable

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Flush until cancelled. While the disk fails, who waits is told so, and it is tried again every second."""
        done = self._store.flushed_position
        while True:
            await self._gate.written.reach(done + 1)
            try:
                await self._flusher.flush_log()
            except FlushPostponedError as exc:
                await self._flusher.wait_for_better_times(exc)  # answers wait on, up to their deadlines
                continue
            except StoreError as exc:
                count = self._gate.refuse()
                if count:
                    _logger.error("the messages of %d sends may be lost: %s", count, exc)
                await trio.sleep(AGAIN_AFTER)
                continue
            self._flusher.note_success()
            done = self._store.flushed_position
            self._gate.release()
            self._make_readable()
            await trio.lowlevel.checkpoint()
