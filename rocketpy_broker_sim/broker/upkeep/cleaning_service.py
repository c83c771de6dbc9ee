"""Deletes what has expired: every so often, and when an administrator asks.

What goes is decided by the store; here is when, in which order, and in which thread. Files of the log go one after the
other, with a pause in between that lets the disk breathe, then the files of queues and index that only led there.
Plays the part of CleanCommitLogService, CleanConsumeQueueService and CorrectLogicOffsetService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.seams import wall_ms
from rocketpy.services import Ticks, run_blocking, ticks
from rocketpy_broker_sim.store.cleaning import CleaningPlan, DiskLevel
from rocketpy_broker_sim.store.running_flags import RunningFlag, RunningFlags

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.retention import Retention

__all__ = ["CleaningService"]

ROUNDS_ON_COMMAND = 20
"""Rounds that follow a command to delete; enough for 200 files, as with Apache's broker."""
QUEUES_AT_ONCE = 50
"""Queues that are corrected before others get their turn."""

log = get_logger(__name__)


class CleaningService:
    """Cleans one store.

    Args:
        retention: says what may go, and removes it.
        config: how often, and with which pauses.
        flags: gets to know when the disk is too full for more.

    Attributes:
        level: How full the disk was when it was last looked at.
    """

    def __init__(self, retention: Retention, config: MessageStoreConfig, flags: RunningFlags) -> None:
        self.level = DiskLevel.FINE
        self._retention = retention
        self._config = config
        self._flags = flags
        self._rounds_on_command = 0
        self._ticks: Ticks | None = None
        self._asked_for_queues: list[Callable[[], None]] = []
        self._not_before = 0.0
        self._cleaned_to = 0
        self._blind = False

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Clean, until cancelled."""
        self._ticks = ticks(self._config.clean_resource_interval / 1000)
        async for _ in self._ticks:
            await self._clean()

    def delete_on_command(self) -> None:
        """Let files that are old enough go in the next rounds, whatever the hour; the first one begins now."""
        self._rounds_on_command = ROUNDS_ON_COMMAND
        self._hurry()

    def clean_queues_on_command(self, done: Callable[[], None]) -> None:
        """Let queues begin where the log does, delete the files that they need no more, and then call `done`."""
        self._asked_for_queues.append(done)
        self._hurry()

    def _hurry(self) -> None:
        if self._ticks is not None:
            self._ticks.now()

    async def _clean(self) -> None:
        """One round."""
        asked, self._asked_for_queues = self._asked_for_queues, []
        plan = await self._planned()
        if plan is not None:
            self._note(plan)
            if plan.files and trio.current_time() >= self._not_before:
                log.info("deleting %d files of the commit log: %s", plan.files, plan.why)
                await self._delete_log_files(plan.files)
        start = self._retention.log_start
        if asked or start > self._cleaned_to:  # also in the first round: the last run may have crashed before this
            await self._clean_queues()
            await self._clean_index()
            self._cleaned_to = start
        for done in asked:
            done()

    # --- what to do ------------------------------------------------------------------------------------

    async def _planned(self) -> CleaningPlan | None:
        on_command = self._rounds_on_command > 0
        if on_command:
            self._rounds_on_command -= 1
        try:
            plan = await run_blocking(self._plan, on_command)
        except StoreError as exc:
            if not self._blind:
                log.error("nothing can be cleaned: %s", exc)
            self._blind = True
            return None
        self._blind = False
        return plan

    def _plan(self, on_command: bool) -> CleaningPlan:
        return self._retention.plan(wall_ms(), on_command=on_command)

    def _note(self, plan: CleaningPlan) -> None:
        if plan.level is not self.level:
            log.info("the disk of the store is %s now, it was %s", _NAMES[plan.level], _NAMES[self.level])
        self.level = plan.level
        if plan.level is DiskLevel.FULL:
            self._flags.set(RunningFlag.DISK_FULL)
        else:
            self._flags.clear(RunningFlag.DISK_FULL)

    # --- doing it --------------------------------------------------------------------------------------

    async def _delete_log_files(self, count: int) -> None:
        """Delete the oldest files."""
        for done in range(count):
            if done:
                await trio.sleep(self._config.delete_commit_log_files_interval / 1000)
            file = self._retention.take_log_file()
            if file is None:
                return
            try:
                await run_blocking(self._retention.remove, file)
            except StoreError as exc:
                log.error("%s", exc)
                self._retention.put_back_log_file(file)
                self._not_before = trio.current_time() + self._config.redelete_hanged_file_interval / 1000
                return
            log.info("deleted %s", file.path)

    async def _clean_queues(self) -> None:
        for number, queue in enumerate(self._retention.queues(), 1):
            deleted = await self._clean_queue(queue)
            if deleted:
                log.info("queue %d of %s: deleted %d expired files", queue.queue_id, queue.topic, deleted)
                await trio.sleep(self._config.delete_consume_queue_files_interval / 1000)
            elif number % QUEUES_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    async def _clean_index(self) -> None:
        while (file := self._retention.take_index_file()) is not None:
            try:
                await run_blocking(self._retention.remove_index_file, file)
            except StoreError as exc:
                log.error("%s", exc)
                return
            log.info("deleted %s", file.path)

    async def _clean_queue(self, queue: ConsumeQueue) -> int:
        """Delete what a queue needs no more, and return how many files that were."""
        deleted = 0
        try:
            self._retention.correct_queue(queue)
            while (folder := self._retention.delete_queue_file(queue)) is not None:
                deleted += 1
                await run_blocking(self._retention.settle, folder)
        except StoreError as exc:
            log.error("%s", exc)
        return deleted


_NAMES = {
    DiskLevel.FINE: "roomy",
    DiskLevel.HIGH: "rather full",
    DiskLevel.VERY_HIGH: "nearly full",
    DiskLevel.FULL: "full",
}
