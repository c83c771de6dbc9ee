"""Running plain listeners in threads that stay.

A thread takes one call after the other from a deque that all threads share, notes what came of it, and tells the trio
thread only now and then: there is no hop between threads for each message. Threads are started when there is work for
them, up to a bound, and wait on a lock of their own while there is none. Under a mock clock, which would jump while
threads work, listeners are called in place instead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

import trio

from rocketpy.consumer.inside import mark
from rocketpy.consumer.listeners import Raised
from rocketpy.consumer.runners import YIELD_AFTER, Call, Finished, ListenerRunner, TaskRunner

__all__ = ["ThreadRunner", "runner_for_plain_listeners"]


class _Worker:
    """One thread. The trio thread reads `call` first and `since` after it, the thread writes them the other way
    round: a call never looks older than it is."""

    __slots__ = ("call", "gate", "since")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.since = 0.0
        self.gate = threading.Lock()
        self.gate.acquire()


class ThreadRunner:
    """Calls plain listeners, each worker a thread. Made in the trio thread.

    What threads share are deques, a list and flags, each touched by one atomic operation at a time; no lock is held
    while a listener runs.

    Args:
        limit: calls at a time.
        finished: where ended calls go.
        report: called in the trio thread when there are some.
    """

    def __init__(self, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._limit = limit
        self._extra = 0
        self._finished = finished
        self._report = report
        self._calls: deque[Call] = deque()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._waking = False
        self._stopped = False
        self._stop_asked = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._token = trio.lowlevel.current_trio_token()
        self._clock = trio.lowlevel.current_clock().current_time
        # Trio's own limit on threads is for calls that end soon.
        self._limiter = trio.CapacityLimiter(2 * limit)

    # --- in the trio thread -----------------------------------------------------------------------------

    def submit(self, calls: Iterable[Call]) -> None:
        """Make these calls."""
        self._calls.extend(calls)
        if not self._waking:
            self._wake_one()

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True
        self._stop_asked.set()
        while self._idle:
            self._idle.pop().gate.release()

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way."""
        now = [(worker.call, worker.since) for worker in self._workers]
        return [(call, since) for call, since in now if call is not None]

    def allow(self, extra: int) -> None:
        """Let so many more calls run, `limit` more at most."""
        self._extra = extra
        if not self._waking:
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
        """One more thread, if there is work for it."""
        if (
            self._calls
            and not self._stopped
            and self._nursery is not None
            and len(self._workers) < self._limit + self._extra
        ):
            worker = _Worker()
            self._workers.add(worker)
            self._nursery.start_soon(self._host, worker)
        else:
            self._waking = False

    async def _host(self, worker: _Worker) -> None:
        mark(self._finished, worker)  # the thread runs in a copy of this context
        await trio.to_thread.run_sync(self._work, worker, abandon_on_cancel=True, limiter=self._limiter)

    # --- in any thread ----------------------------------------------------------------------------------

    def _wake_one(self) -> None:
        """Have one more thread look for calls."""
        try:
            worker = self._idle.pop()
        except IndexError:
            if len(self._workers) < self._limit + self._extra:
                self._waking = True
                self._in_trio_thread(self._start_one)
            return
        self._waking = True
        worker.gate.release()

    def _in_trio_thread(self, function: Callable[[], None]) -> None:
        try:
            self._token.run_sync_soon(function, idempotent=True)
        except trio.RunFinishedError:
            self._stopped = True

    # --- in the threads ---------------------------------------------------------------------------------

    def _work(self, worker: _Worker) -> None:
        """Make calls one after the other; wait when there are none."""
        while not self._stopped:
            self._waking = False
            self._make_calls(worker)
            if not self._stopped:
                self._wait(worker)

    def _wait(self, worker: _Worker) -> None:
        """Wait for work. Whoever takes a worker off the idle list opens its gate."""
        self._idle.append(worker)
        if self._calls or self._stopped:
            # Work came, or the end, before we were on the list: nobody may have seen us there.
            try:
                self._idle.remove(worker)
            except ValueError:
                pass
            else:
                return
        worker.gate.acquire()

    def _make_calls(self, worker: _Worker) -> None:
        """Make calls until there are none. One flat loop: it runs once for each message."""
        calls, clock, finished = self._calls, self._clock, self._finished
        now = reported = clock()
        unreported = False
        while not self._stopped:
            try:
                call = calls.popleft()
            except IndexError:
                break
            if calls and not self._waking:
                self._wake_one()
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
            if now - reported > YIELD_AFTER:
                self._in_trio_thread(self._report)
                reported, unreported = now, False
        if unreported:
            self._in_trio_thread(self._report)


def runner_for_plain_listeners(limit: int, finished: Finished, report: Callable[[], None]) -> ListenerRunner:
    """Threads; under a mock clock the trio thread itself."""
    if type(trio.lowlevel.current_clock()).__name__ == "MockClock":
        return _InPlaceRunner(limit, finished, report)
    return ThreadRunner(limit, finished, report)


class _InPlaceRunner(TaskRunner):
    """Calls plain listeners in the trio thread."""

    def submit(self, calls: Iterable[Call]) -> None:
        """Make these calls."""
        super().submit([(_awaitable(listener), queue, what) for listener, queue, what in calls])


def _awaitable(listener: Callable[[object], object]) -> Callable[[object], object]:
    async def call(what: object) -> object:
        return listener(what)

    return call
