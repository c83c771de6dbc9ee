"""Crew: the workers that call listeners, whichever kind they are.

A crew has lanes of calls that wait, workers that are idle, and at most one that is on its way to look for calls. A
worker takes one call after the other from a lane, which costs next to nothing, and changes to the next lane every few
milliseconds; a worker that takes a call while others wait wakes one more worker first. So quick listeners are called
by one worker in a row, and slow ones side by side, whichever they turn out to be; and no lane holds up another (see
`lanes`). What a worker is, a task or a thread, and how it makes one call, is the business of those who derive from
this. Plays the part of the consumeExecutor in ConsumeMessageConcurrentlyService and ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from rocketpy.consumer.lanes import Lane, Lanes
from rocketpy.results import ConsumeResult

if TYPE_CHECKING:
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt

__all__ = ["AsyncCrew", "Call", "Crew", "Finished", "Worker", "messages_of"]

Call: TypeAlias = "tuple[Listener, ProcessQueue, MessageExt | list[MessageExt]]"
"""One call of a listener, with the queue that the messages are held in. A plain tuple, for there is one a message."""

_MOST_TIMES = 10_000
YIELD_AFTER = 0.002
"""Seconds for which a worker goes on before it lets others see what it has done."""


def messages_of(call: Call) -> list[MessageExt]:
    """The messages of a call."""
    what = call[2]
    return what if isinstance(what, list) else [what]


class Finished:
    """Calls that have ended. Crews append, from any thread; the service takes."""

    def __init__(self) -> None:
        self.succeeded: deque[Call] = deque()
        """Calls that returned None, or SUCCESS."""
        self.others: deque[tuple[Call, object]] = deque()
        """Calls that returned something else, or raised."""
        self.times: deque[tuple[Hashable, int, float]] = deque(maxlen=_MOST_TIMES)
        """Of calls in a row, the lane, how many they were, and the seconds that they took together."""
        self.out: deque[Hashable] = deque()
        """Keys of lanes that were closed, and in which no worker is any more."""

    def take_succeeded(self) -> list[Call]:
        """What has succeeded since the last time."""
        return _take(self.succeeded)

    def take_others(self) -> list[tuple[Call, object]]:
        """What else has ended since the last time."""
        return _take(self.others)

    def take_times(self) -> list[tuple[Hashable, int, float]]:
        """What calls took since the last time."""
        return _take(self.times)

    def take_out(self) -> list[Hashable]:
        """Which lanes have been left for good since the last time."""
        return _take(self.out)


T = TypeVar("T")


def _take(taken: deque[T]) -> list[T]:
    return [taken.popleft() for _ in range(len(taken))]


class Worker:
    """One worker. Others read `call` first and `since` after it, the worker writes them the other way round: a call
    never looks older than it is."""

    __slots__ = ("call", "since")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.since = 0.0


W = TypeVar("W", bound=Worker)


class Crew(ABC, Generic[W]):
    """Workers and what they have to do.

    Where workers are threads, the lanes, the list of idle workers and a few flags change under one lock: when calls
    come, and when a worker changes its lane or has nothing to do. So a worker is either on the list or sees what came.
    Between those moments a worker pops calls of its lane without the lock, and no lock is held while a listener runs.

    Args:
        limit: calls at a time.
        finished: where ended calls go.
        report: called in the trio thread when there are some.
        clock: tells the time, in seconds; for any thread.
        lock: what workers that are threads need; nothing where one loop does everything.
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
        """Whether a worker is on its way to look for calls."""
        self._exhausted = False
        """Whether there is no worker to wake and none may be started: a hint that saves looking."""
        self._stopped = False

    # --- what differs -----------------------------------------------------------------------------------

    @abstractmethod
    def _start_one(self) -> bool:
        """Have one more worker come, which begins with `_next_lane`. False when that is not possible now."""

    @abstractmethod
    def _open(self, worker: W) -> None:
        """Let an idle worker go on."""

    @abstractmethod
    def _tell(self) -> None:
        """Have `report` called in the trio thread, soon."""

    # --- what there is to do ----------------------------------------------------------------------------

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Make these calls of a lane: of a topic, or of a queue where order counts."""
        with self._lock:
            self._lanes.put(key, calls)
            self._wake_one()

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        with self._lock:
            self._lanes.share(topics)
            self._wake_one()

    def allow(self, extra: int) -> None:
        """Let so many more calls run, `limit` more at most."""
        with self._lock:
            self._lanes.allow(extra)
            self._wake_one()

    def order(self, key: Hashable, until: float) -> None:
        """Make the calls of this lane in order, one after the other, and begin none from `until` on."""
        with self._lock:
            self._lanes.order(key, until)
            self._wake_one()

    def again(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Go on in a lane where order counts after a call that was no success, with these calls first."""
        with self._lock:
            self._lanes.again(key, list(calls))
            self._wake_one()

    def close(self, key: Hashable) -> None:
        """Begin no more calls of a lane and forget those that wait; `Finished.out` tells when none is under way."""
        with self._lock:
            if self._lanes.close(key):
                self._finished.out.append(key)
                self._tell()

    def stop(self) -> None:
        """Begin no more calls."""
        with self._lock:
            self._stopped = True
            while self._idle:
                self._open(self._idle.pop())

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way, each with its beginning. For any thread."""
        now = [(worker.call, worker.since) for worker in tuple(self._workers)]
        return [(call, since) for call, since in now if call is not None]

    # --- who does it ------------------------------------------------------------------------------------

    def _wake_one(self, besides: Lane | None = None) -> None:
        """Have one more worker look for calls, unless one is on its way to them already. With the lock."""
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
            # Set before it is there: it may run its first step at once.
            self._waking = True
            self._waking = self._start_one()

    def _wake_for(self, lane: Lane) -> None:
        """More calls of the lane wait behind the one that was taken."""
        with self._lock:
            if lane.calls:
                self._wake_one()

    def _next_lane(self, worker: W, lane: Lane | None, *, arrived: bool) -> Lane | None:
        """Leave a lane and enter the next one. None when there is none: then the worker is on the list, or stops."""
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

    def _turn(self, worker: W, lane: Lane) -> Iterator[Call]:
        """The calls to make of a lane until there are none or it is another's turn. It goes round once a message."""
        calls, clock = lane.calls, self._clock
        now = began = clock()
        made = 0
        # A lock on the queue that runs out, or a call that was no success, ends the turn of a lane with an order.
        while not (self._stopped or lane.closed) and now < lane.until:
            try:
                call = calls.popleft()
            except IndexError:
                break
            if calls and not (self._waking or self._exhausted or lane.full):
                self._wake_for(lane)
            if call[1].dropped:
                continue
            worker.since = now
            worker.call = call
            yield call
            now = clock()
            made += 1
            if now - began > YIELD_AFTER:
                break
        if made:
            self._finished.times.append((lane.key, made, now - began))

    def _note(self, lane: Lane, call: Call, outcome: object) -> None:
        """What came of a call."""
        if outcome is None or outcome is ConsumeResult.SUCCESS:
            self._finished.succeeded.append(call)
            return
        if lane.in_order:
            lane.closed = True  # before it is told: the service that hears of it opens the lane again
        self._finished.others.append((call, outcome))


class AsyncCrew(Crew[W]):
    """A crew whose workers are tasks of one loop."""

    @abstractmethod
    async def _wait(self, worker: W) -> None:
        """Wait until this worker, which is on the list of idle ones, is let go on."""

    @abstractmethod
    async def _breathe(self) -> None:
        """Let other tasks run."""

    @abstractmethod
    async def _make(self, worker: W, lane: Lane, call: Call) -> None:
        """Make one call and note what came of it. Raises only what is to end the worker."""

    @abstractmethod
    def _close_gate(self, worker: W) -> None:
        """Before the worker gets on the list."""

    async def _work(self, worker: W) -> None:
        """Go through the lanes; wait when there is nothing to do."""
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

    async def _make_calls(self, worker: W, lane: Lane) -> None:
        """A turn in a lane. What comes of one call is that call's affair."""
        began = self._clock()
        for call in self._turn(worker, lane):
            try:
                await self._make(worker, lane, call)
            finally:
                worker.call = None
            self._tell()
        if self._clock() - began > YIELD_AFTER:
            # A listener that never waits would keep everything else from running.
            await self._breathe()
