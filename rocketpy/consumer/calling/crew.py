"""Crew: a pool of workers that call listeners.

A crew has lanes of waiting calls, idle workers, and at most one worker that was woken and has not taken a lane yet. A
worker takes calls from a lane one by one, which costs next to nothing, and moves on to the next lane every few
milliseconds. A worker that takes a call while others wait first wakes one more worker. So quick listeners are called by
one worker in a row and slow ones side by side, without knowing in advance which they are, and no lane holds up another
(see `lanes`). Subclasses define what a worker is, a task or a thread, and how it makes a call. Plays the part of the
consumeExecutor in ConsumeMessageConcurrentlyService and ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rocketpy.consumer.calling.lanes import Lane, Lanes
from rocketpy.results import ConsumeResult

if TYPE_CHECKING:
    from rocketpy.consumer.calls import Call, Finished

__all__ = ["AsyncCrew", "Crew", "Worker"]

YIELD_AFTER = 0.002
"""Seconds that a worker spends in a lane before it moves on and reports what it has done."""


class Worker:
    """One worker. The worker writes `since` and then `call`, others read them the other way round, so that a call
    never looks older than it is."""

    __slots__ = ("call", "since")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.since = 0.0


W = TypeVar("W", bound=Worker)


class Crew(ABC, Generic[W]):
    """Workers and their calls.

    If workers are threads, the lanes, the list of idle workers and a few flags change under one lock: when calls are
    submitted, and when a worker changes its lane or becomes idle. So a worker is either on the list of idle ones or
    sees the new calls. In between, a worker pops calls of its lane without the lock, and no lock is held while a
    listener runs.

    Args:
        limit: how many calls may run at the same time.
        finished: where ended calls go.
        report: called in the trio thread when calls have ended.
        clock: the time in seconds; for any thread.
        lock: guards the lanes if workers are threads; None if everything happens in one loop.
    """

    def __init__(
        self,
        limit: int,
        finished: Finished,
        report: Callable[[], None],
        *,
        clock: Callable[[], float],
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._lanes = Lanes(limit, clock)
        self._finished = finished
        self._report = report
        self._clock = clock
        self._lock = nullcontext() if lock is None else lock
        self._workers: set[W] = set()
        self._idle: list[W] = []
        self._waking = False
        """Whether a worker was woken and has not taken a lane yet."""
        self._exhausted = False
        """Whether no worker is idle and no more may be started: a hint that saves taking the lock."""
        self._stopped = False

    # --- what differs -----------------------------------------------------------------------------------

    @abstractmethod
    def _start_one(self) -> bool:
        """Start one more worker, which calls `_next_lane` first. False if that is not possible now."""

    @abstractmethod
    def _open(self, worker: W) -> None:
        """Wake an idle worker."""

    @abstractmethod
    def _tell(self) -> None:
        """Have `report` called in the trio thread, soon."""

    # --- what there is to do ----------------------------------------------------------------------------

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Add calls to a lane: that of a topic, or that of a queue if the consumer is orderly."""
        with self._lock:
            self._lanes.put(key, calls)
            self._wake_one()

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        with self._lock:
            self._lanes.share(topics)
            self._wake_one()

    def allow(self, extra: int) -> None:
        """Let `extra` calls more than the limit run at the same time, or fewer if it is negative."""
        with self._lock:
            self._lanes.allow(extra)
            self._wake_one()

    def order(self, key: Hashable, until: float) -> None:
        """Make the calls of this lane in order, one by one, and start none after `until`."""
        with self._lock:
            self._lanes.order(key, until)
            self._wake_one()

    def again(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Open an ordered lane that an unsuccessful call has closed, with these calls first."""
        with self._lock:
            self._lanes.again(key, list(calls))
            self._wake_one()

    def close(self, key: Hashable) -> None:
        """Start no more calls of a lane and forget those that wait; its key is in `Finished.out` once none runs."""
        with self._lock:
            if self._lanes.close(key):
                self._finished.out.append(key)
                self._tell()

    def stop(self) -> None:
        """Start no more calls."""
        with self._lock:
            self._stopped = True
            while self._idle:
                self._open(self._idle.pop())

    def running(self) -> list[tuple[Call, float]]:
        """The calls that are running, each with its start on the crew's clock. Thread-safe."""
        now = [(worker.call, worker.since) for worker in tuple(self._workers)]
        return [(call, since) for call, since in now if call is not None]

    # --- who does it ------------------------------------------------------------------------------------

    def _wake_one(self, besides: Lane | None = None) -> None:
        """Wake or start one more worker if a call waits, unless one is being woken already. With the lock."""
        self._exhausted = False
        if self._waking or self._stopped:
            return
        if self._idle:
            if self._lanes.is_waiting(besides):
                self._waking = True
                self._open(self._idle.pop())
        elif len(self._workers) >= self._lanes.limit:
            self._exhausted = True
        elif self._lanes.is_waiting(besides):
            # Set before the worker exists: it may run its first step at once.
            self._waking = True
            self._waking = self._start_one()

    def _wake_for(self, lane: Lane) -> None:
        """Wake one more worker if calls of the lane still wait behind the one that was taken."""
        with self._lock:
            if lane.calls:
                self._wake_one()

    def _next_lane(self, worker: W, lane: Lane | None, *, arrived: bool) -> Lane | None:
        """Leave a lane and enter the next one. None if there is none: then the worker is on the idle list, or ends."""
        with self._lock:
            if arrived:
                self._waking = False
            if lane is not None:
                self._leave(lane)
            if self._stopped:
                return None
            entered = self._lanes.enter()
            if entered is not None:
                self._wake_one(besides=entered)
            else:
                self._idle.append(worker)
                self._exhausted = False
            return entered

    def _leave(self, lane: Lane) -> None:
        if self._lanes.leave(lane):
            self._finished.out.append(lane.key)
            self._tell()

    def _calls_of(self, worker: W, lane: Lane) -> Iterator[Call]:
        """Yield the calls to make of a lane, until it is empty or the worker's time there is over."""
        calls, clock = lane.calls, self._clock
        now = began = clock()
        ends = began + YIELD_AFTER
        made = 0
        # In an ordered lane, a lock that expires or an unsuccessful call also ends the turn.
        while not (lane.closed or self._stopped) and now < lane.until:
            try:
                call = calls.popleft()
            except IndexError:
                break
            if not lane.full and calls and not (self._waking or self._exhausted):
                self._wake_for(lane)
            if call[1].dropped:
                continue
            worker.since = now
            worker.call = call
            yield call
            now = clock()
            made += 1
            if now > ends:
                break
        if made:
            self._finished.times.append((lane.key, made, now - began, now - worker.since))

    def _tell_ended(self) -> None:
        """Notify the service that calls have ended, unless it was notified and has not taken them yet."""
        if not self._finished.told:
            self._finished.told = True
            self._tell()

    def _note(self, lane: Lane, call: Call, outcome: object) -> None:
        """Record the result of a call."""
        if outcome is None or outcome is True or outcome is ConsumeResult.SUCCESS:
            self._finished.succeeded.append(call)
            return
        if lane.in_order:
            lane.closed = True  # before the result is reported: the service opens the lane again when it sees it
        self._finished.others.append((call, outcome))


class AsyncCrew(Crew[W]):
    """A crew whose workers are tasks of one loop."""

    @abstractmethod
    async def _wait(self, worker: W) -> None:
        """Wait until this idle worker is woken."""

    @abstractmethod
    async def _make_calls(self, worker: W, lane: Lane) -> None:
        """Make calls of a lane for one turn, notifying the service after each. Raises only what should end the worker.

        After a turn that took its whole time, other tasks get theirs: otherwise a listener that never awaits would keep
        everything else from running.
        """

    @abstractmethod
    def _close_gate(self, worker: W) -> None:
        """Prepare a worker to wait, before it is put on the list of idle ones."""

    async def _work(self, worker: W) -> None:
        """Make the calls of one lane after another, and wait when there are none."""
        lane, arrived = None, True
        try:
            while True:
                self._close_gate(worker)
                lane = self._next_lane(worker, lane, arrived=arrived)
                if lane is not None:
                    arrived = False
                    await self._make_calls(worker, lane)
                elif self._stopped:
                    return
                else:
                    await self._wait(worker)
                    arrived = True
        finally:
            self._workers.discard(worker)
            if lane is not None:
                self._leave(lane)
