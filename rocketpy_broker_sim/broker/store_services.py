"""Flushing the store, one flush at a time, and group commit: sends that are answered when the disk has their message.

Flushes block, so they run in threads. Plays the part of GroupCommitService and FlushDiskWatcher.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.services import run_blocking
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.flush_thread import FlushThread
from rocketpy_broker_sim.store.disk.failure import FlushPostponedError

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.put_times import PutTimes
    from rocketpy_broker_sim.broker.turn import Answer, Turn
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["Disk", "GroupCommit"]

RETRY_AFTER = 0.2
"""Seconds between two tries of a flush that could not begin."""
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
                await (self.thread.run if self.thread.is_open else run_blocking)(self._store.flush_commit_log)

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
            self._store.prepare_flush(everything=True)
            await self.flush_log()
            await run_blocking(self._store.flush_queues)

    async def flush_queues(self, least_pages: int) -> None:
        """Flush the queues with so many pages of new units, and write the checkpoint. Raises as `flush_log`."""
        async with self._queue_turn:
            self._store.prepare_flush()
            await run_blocking(self._store.flush_queues, least_pages)

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


class _Waiting(NamedTuple):
    answer: Answer
    deadline: float


class GroupCommit:
    """Answers to sends that must not leave before the disk has the message: one flush serves all that wait.

    Args:
        disk: does the flushing.
        store: says how far it is.
        turn: lets consumers read what was flushed.
        times: hears how long the puts took.
        timeout: seconds after which the producer is told that the flush takes too long; the message is kept.
    """

    def __init__(self, disk: Disk, store: MessageStore, turn: Turn, times: PutTimes, timeout: float) -> None:
        self._disk = disk
        self._store = store
        self._turn = turn
        self._times = times
        self._timeout = timeout
        self._waiting: deque[_Waiting] = deque()
        self._asked = False
        self._lot = trio.lowlevel.ParkingLot()
        self._timing = trio.lowlevel.ParkingLot()

    def park(self, answers: Sequence[Answer]) -> None:
        """Keep answers until the disk has their messages; without any, flush what nobody waits for."""
        self._asked = True
        deadline = trio.current_time() + self._timeout
        self._waiting.extend(_Waiting(answer, deadline) for answer in answers)
        self._lot.unpark()
        self._timing.unpark()

    def __len__(self) -> int:
        """How many answers wait."""
        return len(self._waiting)

    async def serve(self) -> None:
        """Flush while somebody waits."""
        while True:
            if not self._waiting and not self._asked:
                await self._lot.park()
            self._asked = False
            try:
                await self._disk.flush_log()
            except FlushPostponedError as exc:
                self._asked = True  # those that wait go on waiting, up to their deadlines
                await self._disk.wait_for_better_times(exc)
                continue
            except StoreError as exc:
                _logger.error("the messages of %d sends may be lost: %s", len(self._waiting), exc)
                self._refuse_all()
                continue
            self._disk.note_success()
            self._release(self._store.flushed_position)
            self._turn.make_readable()
            await trio.lowlevel.checkpoint()

    async def serve_deadlines(self) -> None:
        """Tell producers whose flush takes too long."""
        while True:
            if not self._waiting:
                await self._timing.park()
                continue
            await trio.sleep_until(self._waiting[0].deadline)
            self._expire(trio.current_time())

    def _release(self, flushed: int) -> None:
        """Let the answers go whose messages the disk has; those of one turn have waited equally long."""
        began = trio.current_time() + self._timeout
        released: dict[float, int] = {}
        while self._waiting and self._waiting[0].answer.written_to <= flushed:
            answer, deadline = self._waiting.popleft()
            released[deadline] = released.get(deadline, 0) + 1
            answer.connection.send_answer(answer.request, answer.command)
        for deadline, count in released.items():
            self._times.note(count, began - deadline)

    def _expire(self, now: float) -> None:
        while self._waiting and self._waiting[0].deadline <= now:
            answer = self._waiting.popleft().answer
            answer.command.code = ResponseCode.FLUSH_DISK_TIMEOUT
            self._times.note(1, self._timeout)
            answer.connection.send_answer(answer.request, answer.command)

    def _refuse_all(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._times.failed += len(waiting)
        for each in waiting:
            request = each.answer.request
            remark = "the disk of the broker failed: whether the message was stored is unknown"
            each.answer.connection.send_answer(request, request.answer(ResponseCode.SERVICE_NOT_AVAILABLE, remark))
