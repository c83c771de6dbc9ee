"""Running plain listeners in threads that stay.

A thread takes one call after the other from the lane of a topic, notes what came of it, and tells the trio thread only
now and then: there is no hop between threads and no lock for each message. Threads are started when there is work for
them, up to a bound, and wait on a lock of their own while there is none. Under a mock clock, which would jump while
threads work, listeners are called in place instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

import trio

from rocketpy.consumer.inside import mark
from rocketpy.consumer.lanes import Lane, Lanes
from rocketpy.consumer.listeners import Raised
from rocketpy.consumer.runners import YIELD_AFTER, Call, Finished, ListenerRunner, TaskRunner

__all__ = ["ThreadRunner", "runner_for_plain_listeners"]


class _Worker:
    """One thread. The trio thread reads `call` first and `since` after it, the thread writes them the other way
    round: a call never looks older than it is."""

    __slots__ = ("call", "gate", "since", "thread")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.since = 0.0
        self.thread = 0
        self.gate = threading.Lock()
        self.gate.acquire()


class ThreadRunner:
    """Calls plain listeners, each worker a thread. Made in the trio thread.

    Threads share the lanes, the list of idle workers and a few flags, which change under one lock: when calls come, and
    when a worker changes its lane or has nothing to do. So a worker is either on the list or sees what came. Between
    those moments a worker pops calls of its lane without the lock, and no lock is held while a listener runs.

    Args:
        limit: calls at a time.
        finished: where ended calls go.
        report: called in the trio thread when there are some.
    """

    def __init__(self, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._lanes = Lanes(limit)
        self._lock = threading.Lock()
        self._finished = finished
        self._report = report
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._waking = False
        """Whether a worker is on its way to look for calls."""
        self._exhausted = False
        """Whether there is no worker to wake and none may be started: a hint that saves asking for the lock."""
        self._stopped = False
        self._stop_asked = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._token = trio.lowlevel.current_trio_token()
        self._clock = trio.lowlevel.current_clock().current_time
        # Trio's own limit on threads is for calls that end soon.
        self._limiter = trio.CapacityLimiter(2 * limit)

    # --- in the trio thread -----------------------------------------------------------------------------

    def submit(self, topic: str, calls: Iterable[Call]) -> None:
        """Make these calls."""
        with self._lock:
            self._lanes.put(topic, calls)
            self._wake_one()

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        with self._lock:
            self._lanes.share(topics)
            self._wake_one()

    def stop(self) -> None:
        """Begin no more calls."""
        with self._lock:
            self._stopped = True
            while self._idle:
                self._idle.pop().gate.release()
        self._stop_asked.set()

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way."""
        now = [(worker.call, worker.since) for worker in self._workers]
        return [(call, since) for call, since in now if call is not None]

    def allow(self, extra: int) -> None:
        """Let so many more calls run, `limit` more at most."""
        with self._lock:
            self._lanes.allow(extra)
            self._wake_one()

    async def run(self) -> None:
        """The service. When it is cancelled, threads are left to end by themselves: nothing can end them."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._start_one()
                await self._stop_asked.wait()
        finally:
            self.stop()

    def _start_one(self) -> None:
        """One more thread, if there is work for it. Workers may have become idle since it was asked for."""
        with self._lock:
            self._waking = False
            if self._nursery is None or self._idle or not self._is_wanted():
                self._wake_one()
                return
            self._waking = True
            worker = _Worker()
            self._workers.add(worker)
        self._nursery.start_soon(self._host, worker)

    async def _host(self, worker: _Worker) -> None:
        mark(self._finished, worker)  # the thread runs in a copy of this context
        await trio.to_thread.run_sync(self._work, worker, abandon_on_cancel=True, limiter=self._limiter)

    # --- in any thread, with the lock -------------------------------------------------------------------

    def _is_wanted(self, besides: Lane | None = None) -> bool:
        """Whether another thread would find work, and may be there."""
        return not self._stopped and len(self._workers) < self._lanes.limit and self._lanes.is_waiting(besides)

    def _wake_one(self, besides: Lane | None = None) -> None:
        """Have one more thread look for calls, unless one is on its way to them already."""
        self._exhausted = False
        if self._waking or self._stopped:
            return
        if self._idle:
            if self._lanes.is_waiting(besides):
                self._waking = True
                self._idle.pop().gate.release()
        elif len(self._workers) >= self._lanes.limit:
            self._exhausted = True
        elif self._nursery is not None and self._lanes.is_waiting(besides):
            self._waking = True
            self._in_trio_thread(self._start_one)

    # --- in the threads ---------------------------------------------------------------------------------

    def _in_trio_thread(self, function: Callable[[], None]) -> None:
        try:
            self._token.run_sync_soon(function, idempotent=True)
        except trio.RunFinishedError:
            self._stopped = True

    def _work(self, worker: _Worker) -> None:
        """Go through the lanes."""
        worker.thread = threading.get_ident()
        lane = self._next_lane(worker, None)
        while lane is not None:
            self._make_calls(worker, lane)
            lane = self._next_lane(worker, lane)

    def _next_lane(self, worker: _Worker, lane: Lane | None) -> Lane | None:
        """Leave a lane and enter the next one; wait while there is none. None at the end."""
        woken = lane is None
        while True:
            with self._lock:
                if woken:
                    self._waking = False
                if lane is not None:
                    self._lanes.leave(lane)
                if self._stopped:
                    return None
                lane = self._lanes.enter()
                if lane is not None:
                    self._wake_one(besides=lane)
                    return lane
                self._idle.append(worker)
                self._exhausted = False
            worker.gate.acquire()  # opened when somebody takes the worker off the list
            woken = True

    def _wake_for(self, lane: Lane) -> None:
        """More calls of the lane wait behind the one that was taken."""
        with self._lock:
            if lane.calls:
                self._wake_one()

    def _make_calls(self, worker: _Worker, lane: Lane) -> None:
        """Make calls of a lane until there are none or it is another's turn. It runs once for each message."""
        calls, clock, finished = lane.calls, self._clock, self._finished
        now = began = clock()
        unreported = False
        while not self._stopped:
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
            try:
                outcome = call[0](call[2])
            except BaseException as exc:  # noqa: BLE001  a thread has no one else to tell, and must go on
                outcome = Raised(exc)
            worker.call = None
            if outcome is None:
                finished.succeeded.append(call)
            else:
                finished.others.append((call, outcome))
            now = clock()
            unreported = True
            if now - began > YIELD_AFTER:
                break
        if unreported:
            self._in_trio_thread(self._report)


def runner_for_plain_listeners(limit: int, finished: Finished, report: Callable[[], None]) -> ListenerRunner:
    """Threads; under a mock clock the trio thread itself."""
    if type(trio.lowlevel.current_clock()).__name__ == "MockClock":
        return _InPlaceRunner(limit, finished, report)
    return ThreadRunner(limit, finished, report)


class _InPlaceRunner(TaskRunner):
    """Calls plain listeners in the trio thread."""

    def submit(self, topic: str, calls: Iterable[Call]) -> None:
        """Make these calls."""
        super().submit(topic, [(_awaitable(listener), queue, what) for listener, queue, what in calls])


def _awaitable(listener: Callable[[object], object]) -> Callable[[object], object]:
    async def call(what: object) -> object:
        return listener(what)

    return call
