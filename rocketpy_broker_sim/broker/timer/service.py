"""The timer: one task takes messages into the wheel and delivers them when they are due, another one flushes.

While nothing waits, both sleep. Plays the part of TimerMessageStore and its threads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.rates import Rate
from rocketpy.services import run_blocking
from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.broker.timer.delivery import Delivery
from rocketpy_broker_sim.broker.timer.dequeue import Dequeue
from rocketpy_broker_sim.broker.timer.enqueue import Enqueue
from rocketpy_broker_sim.broker.timer.records import timer_records
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.timer.parts import TimerParts

__all__ = ["TimerService"]

log = get_logger(__name__)

BATCH: Final = 64
"""Messages that are taken, or delivered, before other tasks have their turn."""
_FIRST_RETRY: Final = 0.1
_LAST_RETRY: Final = 10.0
_STOPPED: Final = 1.0
"""Seconds between checks whether a timer that a setting has stopped may continue."""
_BEHIND: Final = 0.05
"""Seconds between looks at a store that cannot bring its messages into their queues."""
_CLEAN_EVERY: Final = 30.0
"""Seconds between checks for files of the timer log that are no longer needed."""


class TimerService:
    """Drives the timer of one broker.

    Args:
        parts: Its parts.
        flush: Returns when the disk has the commit log.
        queues_read: Returns the number of read queues of a topic; 0 for a topic that does not exist.
    """

    def __init__(
        self,
        parts: TimerParts,
        flush: Callable[[], Awaitable[None]],
        queues_read: Callable[[str], int] = lambda topic: 0,
    ) -> None:
        self._parts = parts
        self._flush = flush
        delivery = Delivery(parts.store, queues_read)
        self.enqueue = Enqueue(parts, delivery)
        self.dequeue = Dequeue(parts, delivery)
        self._arrived = trio.Event()
        self._stale = trio.Event()
        self._flushing = trio.Lock()
        self._retry = _FIRST_RETRY
        self._started = 0.0
        self._cleaned = 0.0
        self._rates: tuple[Rate, Rate] | None = None

    # --- moving messages -------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Take and deliver messages, until cancelled."""
        self._started = trio.current_time()
        self._rates = Rate(self._started), Rate(self._started)
        while True:
            self._arrived = trio.Event()
            pause = self._step()
            with trio.move_on_after(pause):
                await self._arrived.wait()

    def on_arrival(self) -> None:
        """Wake the service, because new messages are in the timer's topic."""
        self._arrived.set()

    def _step(self) -> float:
        """Do a small part of all pending work. Returns the seconds until there is more to do."""
        before = self.enqueue.taken, self.dequeue.delivered
        try:
            pause = self._move()
            self._retry = _FIRST_RETRY
        except StoreError as exc:
            log.error("the timer cannot continue, trying again: %s", exc)
            self._retry, pause = min(self._retry * 2, _LAST_RETRY), self._retry
        self._count(*before)
        if self._parts.timers.is_stale:
            self._stale.set()
        return pause

    def _move(self) -> float:
        config = self._parts.config
        pause = float("inf")
        is_taking, is_giving = not config.timer_stop_enqueue, not config.timer_stop_dequeue
        if is_taking and self.enqueue.behind:
            pause = 0.0 if self.enqueue.take(BATCH) else self._retry
        elif is_taking:
            self.enqueue.forget_passed()
        wait = config.disappear_time_after_start / 1000 - (trio.current_time() - self._started)
        if is_giving and wait <= 0:
            pause = min(pause, self._give(in_order=is_taking))
        elif is_giving:
            pause = min(pause, wait)
        self.dequeue.close_passed()
        return pause if is_taking and is_giving else min(pause, _STOPPED)

    def _give(self, *, in_order: bool) -> float:
        """Open slots, and deliver messages that are due. Returns the seconds until there is more to do."""
        has_more = self.dequeue.open_due()
        if self.dequeue.deliver_due(BATCH, in_order=in_order) or has_more:
            return 0.0
        pause = max(0.0, self.dequeue.next_time() - self._parts.clock.elapsed()) / 1000
        return max(pause, _BEHIND) if self._parts.store.is_behind else pause

    def _count(self, taken: int, delivered: int) -> None:
        if self._rates is not None:
            now = trio.current_time()
            for rate, more in zip(
                self._rates, (self.enqueue.taken - taken, self.dequeue.delivered - delivered), strict=True
            ):
                if more:
                    rate.add(now, more)

    def rates(self) -> tuple[float, float]:
        """Messages taken and delivered a second, lately."""
        if self._rates is None:
            return 0.0, 0.0
        now = trio.current_time()
        return self._rates[0].minute(now).per_second, self._rates[1].minute(now).per_second

    # --- the disk ----------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def serve_flush(self) -> None:
        """Flush the progress of the timer some time after it has changed, until cancelled."""
        while True:
            await self._stale.wait()
            await trio.sleep(self._parts.config.timer_flush_interval_ms / 1000)
            self._stale = trio.Event()
            try:
                await self.save()
                await self._clean()
            except StoreError as exc:
                log.error("the progress of the timer cannot be written, trying again: %s", exc)
                self._stale.set()

    async def save(self) -> None:
        """Flush the progress of the timer, after the messages that it has put.

        Raises:
            StoreError: the disk refused.
        """
        timers, metrics = self._parts.timers, self._parts.metrics
        async with self._flushing:
            what = timers.prepare(self._parts.clock.now_ms(), self._parts.clock.shifts())
            steps = metrics.encode_steps() if metrics.changed else None
            metrics.changed = False
            try:
                await self._flush()
                if steps is not None:
                    await run_blocking(metrics.file.save, await in_slices(steps))
                await run_blocking(timers.flush, what)
            except BaseException:
                timers.give_back(what)
                metrics.changed = metrics.changed or steps is not None
                raise

    async def _clean(self) -> None:
        """Delete a file of the timer log that is no longer needed."""
        now = trio.current_time()
        if now - self._cleaned < _CLEAN_EVERY:
            return
        self._cleaned = now
        file = self._parts.timers.take_expired()
        if file is not None:
            await run_blocking(self._parts.timers.delete_file, file)

    async def leave(self) -> None:
        """Flush for the last time, after removing delivered messages from the wheel.

        Raises:
            StoreError: the disk refused; some messages are delivered again after the next start.
        """
        if not self._parts.timers.is_used:
            return
        self.dequeue.leave()
        self._mark_newest()
        await self.save()

    def _mark_newest(self) -> None:
        """Make the log end with the message that was taken last, because Apache's broker continues after that one."""
        parts = self._parts
        unit, offset = parts.timers.last_unit(), parts.timers.queue_offset
        if unit is None or not offset:
            return
        found = parts.store.reads.get(TIMER_TOPIC, 0, offset - 1, 1)
        for record in timer_records(found.records):
            if record.position != unit.position:
                now = parts.now_tick() * parts.timers.precision
                parts.timers.mark_newest(record.position, record.size, now)
