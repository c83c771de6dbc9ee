"""Delivers messages with a delay level when they are due: out of the schedule topic, to the topic they were meant for.

Each level is a queue of the schedule topic and its delay is the same for all of it, so only the head of a queue can be
the next one due. One task sleeps until the first head is due or a message reaches an empty level; nothing polls. What
is delivered has the properties it was parked with. A message that cannot be put now holds up its level, as the progress
of a level is one offset. A crash may deliver the last messages again, as with Apache's broker, and never loses one:
offsets reach the disk after the messages they pass. Plays the part of ScheduleMessageService.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import MessageDecodeError, StoreError
from rocketpy.logs import get_logger, quote
from rocketpy.services import run_blocking, ticks
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy_broker_sim.broker.delays.again import Redelivery, may_go, put_again, readable
from rocketpy_broker_sim.broker.delays.delay import queue_of_level
from rocketpy_broker_sim.broker.putting.stored_records import stored_records

if TYPE_CHECKING:
    from rocketpy.message import RecordHead
    from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord
    from rocketpy_broker_sim.broker.tables.delay_offsets import DelayOffsetTable
    from rocketpy_broker_sim.store.delay_levels import DelayLevels
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.put_result import GetMessageResult

__all__ = ["ScheduleService"]

log = get_logger(__name__)

BATCH = 32
"""Messages of a level that are delivered before the other levels have their go."""
_FIRST_RETRY = 0.1
_LAST_RETRY = 10.0
_INSTANT_MS = 0.001
"""What is due that soon is due: differences of large floats, and a clock that stands may never get over them."""


class ScheduleService:
    """Watches the delay levels of one broker.

    Args:
        store: where messages wait, and where they go.
        levels: the delays.
        offsets: how far each level has been delivered.
        commit: writes what was put and lets consumers see it; raises StoreError.
        flush: returns when the disk has the log; the broker lets only one flush run at a time.
        queues_read: returns the number of read queues of a topic; 0 for a topic that does not exist.

    Attributes:
        delivered: How many messages have been delivered since the start.
    """

    def __init__(
        self,
        store: MessageStore,
        levels: DelayLevels,
        offsets: DelayOffsetTable,
        commit: Callable[[], None],
        flush: Callable[[], Awaitable[None]] | None = None,
        queues_read: Callable[[str], int] = lambda topic: 0,
    ) -> None:
        self._store = store
        self._reads = store.reads
        self._levels = levels
        self._offsets = offsets
        self._commit = commit
        self._flush = flush or partial(run_blocking, store.flushing.commit_log.flush)
        self._queues_read = queues_read
        self._due = dict.fromkeys(range(1, levels.count + 1), 0.0)
        self._arrived = trio.Event()
        self._retry = _FIRST_RETRY
        self.delivered = 0

    # --- start and stop --------------------------------------------------------------------------------

    def load(self) -> None:
        """Read where delivery stood, and put right what no longer fits the queues.

        Raises:
            StoreCorruptError: the file cannot be read, nor its .bak.
            StoreError: the disk refused.
        """
        self._offsets.load()
        for level in self._due:
            queue, offset = queue_of_level(level), self._offsets.get(level)
            low, high = self._reads.min_offset(SCHEDULE_TOPIC, queue), self._reads.max_offset(SCHEDULE_TOPIC, queue)
            fitting = min(max(offset, low), high)
            if fitting != offset:
                log.warning("delay level %d: offset %d is not within %d and %d", level, offset, low, high)
                self._offsets.update(level, fitting)
        self._offsets.persist()

    def progress(self) -> dict[int, int]:
        """The next offset to deliver, by level, of the levels that had messages."""
        return {level: self._offsets.get(level) for level in self._offsets.levels()}

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Deliver, until cancelled."""
        while True:
            self._arrived = trio.Event()
            pause = self.deliver_due()
            with trio.move_on_after(pause):
                await self._arrived.wait()

    @trio.lowlevel.enable_ki_protection
    async def serve_offsets(self, interval: float) -> None:
        """Write the offsets every `interval` seconds, until cancelled."""
        async for _ in ticks(interval):
            try:
                await self.save()
            except StoreError as exc:
                log.error("the offsets of delayed messages cannot be written, trying again: %s", exc)

    async def save(self) -> None:
        """Write the offsets, once the disk has the messages that they pass.

        Raises:
            StoreError: the disk refused.
        """
        if not self._offsets.changed:
            return
        data = self._offsets.encode()
        self._offsets.changed = False
        try:
            await self._flush()
            await run_blocking(self._offsets.file.save, data)
        except BaseException:
            self._offsets.changed = True
            raise

    # --- waiting ---------------------------------------------------------------------------------------

    def on_arrival(self, queue_id: int) -> None:
        """New messages wait in a queue of the schedule topic."""
        level = queue_id + 1
        if math.isinf(self._due.get(level, 0.0)):
            self._due[level] = 0.0
            self._arrived.set()

    def deliver_due(self) -> float:
        """Deliver what is due now, a batch a level. Returns in how many seconds there may be more."""
        now = trio.current_time()
        for level, due in self._due.items():
            if due <= now:
                self._due[level] = now + self._deliver(level)
        return max(0.0, min(self._due.values()) - now)

    # --- one level -------------------------------------------------------------------------------------

    def _deliver(self, level: int) -> float:
        """Deliver a batch of a level. Returns the seconds until the next one of it is due."""
        try:
            pause = self._deliver_batch(level)
        except StoreError as exc:
            log.error("delay level %d is stuck at %d, trying again: %s", level, self._offsets.get(level), exc)
            pause = None
        if pause is None:
            self._retry, pause = min(self._retry * 2, _LAST_RETRY), self._retry
        else:
            self._retry = _FIRST_RETRY
        return pause

    def _deliver_batch(self, level: int) -> float | None:
        """As `_deliver`; None when it must be tried again.

        Raises:
            StoreError: the disk refused to give or to take.
        """
        times: list[int] = []

        def note(deliver_time: int) -> bool:
            times.append(deliver_time)
            return True

        offset = self._offsets.get(level)
        found = self._reads.get(SCHEDULE_TOPIC, queue_of_level(level), offset, BATCH, match=note)
        if not found.count:
            # Behind the end, before the beginning (files were cleaned), or in a part of the log that is gone.
            if found.next_begin_offset != offset:
                self._offsets.update(level, found.next_begin_offset)
            return math.inf if found.next_begin_offset in (offset, found.max_offset) else 0.0
        if len(times) != found.next_begin_offset - offset:
            times = []  # they stand where a setting keeps them, and that is off now
        reached, pause = self._put_due(level, found, times, offset)
        if reached > offset:
            self._commit()
            self.delivered += reached - offset
            self._offsets.update(level, reached)
        return pause

    def _put_due(self, level: int, found: GetMessageResult, times: list[int], offset: int) -> tuple[int, float | None]:
        """Put what is due of a read. Returns how far that went, and the seconds to the next, None for "try again"."""
        reached = offset
        try:
            for record in stored_records(found.records):
                head = record.head
                due = head.store_timestamp + self._levels.delay(level)
                left = self._seconds_left(level, head, times[head.queue_offset - offset] if times else due)
                if left > 0:
                    return reached, left
                if not self._put(level, record):
                    return reached, None
                reached = head.queue_offset + 1
        except MessageDecodeError as exc:
            if reached == offset:
                log.error("delay level %d: the message at %d is damaged and skipped: %s", level, offset, exc)
                reached += 1
            return reached, 0.0
        return found.next_begin_offset, 0.0

    def _seconds_left(self, level: int, head: RecordHead, deliver_time: int) -> float:
        """How long a message has to wait.

        What this run has stored waits by the monotonic clock. What an earlier run has is due when the store says; there
        a message that seems further away than its level means a clock that went back since, and does not wait.
        """
        delay, clock = self._levels.delay(level), self._store.clock
        waited = clock.waited_ms(head.physical_offset, head.store_timestamp)
        if waited is not None:
            left = min(deliver_time - head.store_timestamp, delay) - waited
        else:
            left = deliver_time - clock.even_ms()
            left = 0.0 if left > delay else left
        return left / 1000 if left > _INSTANT_MS else 0.0

    def _put(self, level: int, record: StoredRecord) -> bool:
        """Put a message where it was meant to go; whether it is done with."""
        message, goal = record.message, may_go(record.properties)
        if goal is None:
            log.error("delay level %d: a message without a topic is skipped: %s", level, quote(str(record.properties)))
            return True
        message.topic, message.queue_id = goal[0], readable(self._queues_read(goal[0]), goal[1])
        became, status = put_again(self._store, message)
        if became is Redelivery.NEVER:
            log.error(
                "delay level %d: the message at %d cannot be stored in %s and is skipped",
                level,
                record.head.queue_offset,
                message.topic,
            )
        elif became is Redelivery.LATER:
            log.warning("delay level %d: the store accepts no messages now (%s)", level, status.name)
        return became not in (Redelivery.LATER, Redelivery.NO_QUEUE)
