"""ThreadRunner: calls plain listeners in threads that are reused.

A thread makes the calls of a lane one by one and records the results, so that no message costs a switch between threads
or a lock. The trio thread wakes it for all calls that come together, and is notified of what has ended every few
milliseconds, at once if something waits for that. Threads are started when there is work for them, up to a limit, and
wait on a lock of their own while there is none. Under a mock clock, which would jump ahead while threads work,
listeners are called in the trio thread instead.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.calling.crew import YIELD_AFTER, Crew, Worker
from rocketpy.consumer.calling.runners import ListenerRunner, TaskRunner
from rocketpy.consumer.inside import mark
from rocketpy.consumer.listeners import Raised
from rocketpy.services import tell_loop

if TYPE_CHECKING:
    from rocketpy.consumer.calling.lanes import Lane
    from rocketpy.consumer.calls import Call, Finished

__all__ = ["ThreadRunner", "runner_for_plain_listeners"]


_LINGER = 0.001
"""Seconds that an idle worker waits for more calls before it notifies the trio thread of those that have ended. Calls
that come sooner after the last ones come in a stream."""
_TURNS = 16
"""Turns of the loop until a worker is woken for calls that come in a stream; for others it is one."""


class _Thread(Worker):
    """A worker that is a thread."""

    __slots__ = ("gate", "thread", "told")

    def __init__(self) -> None:
        super().__init__()
        self.thread = 0
        self.told = 0.0
        """When it last notified the trio thread."""
        self.gate = threading.Lock()
        self.gate.acquire()


class ThreadRunner(Crew[_Thread]):
    """Calls plain listeners; its workers are threads. Made in the trio thread.

    Args:
        limit: how many calls may run at the same time.
        finished: where ended calls go.
        report: called in the trio thread when calls have ended.
    """

    def __init__(self, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        clock = trio.lowlevel.current_clock().current_time
        super().__init__(limit, finished, report, clock=clock, lock=threading.Lock())
        self._due = trio.Event()
        """Set when calls were submitted for which no worker was woken yet, and by `stop`."""
        self._due.set()  # by the time that `run` begins, calls may wait
        self._nursery: trio.Nursery | None = None
        self._token = trio.lowlevel.current_trio_token()
        # Trio's own limit on threads is for calls that end soon; the crew limits its workers itself.
        self._limiter = trio.CapacityLimiter(math.inf)

    # --- in the trio thread -----------------------------------------------------------------------------

    def stop(self) -> None:
        """Start no more calls."""
        super().stop()
        self._due.set()

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Add calls to a lane, and have a worker woken soon."""
        with self._lock:
            self._lanes.put(key, calls)
        self._due.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the service. When it is cancelled, running threads are abandoned, as nothing can stop them."""
        try:
            async with trio.open_nursery() as self._nursery:
                woken = -math.inf
                while not self._stopped:
                    await self._due.wait()
                    self._due = trio.Event()
                    now = began = self._clock()
                    # Turns of the loop later, for all calls that have come by then: each switch to a thread and back
                    # costs as much as twenty calls.
                    for _ in range(_TURNS if began - woken < _LINGER else 1):
                        await trio.lowlevel.checkpoint()
                        now = self._clock()
                        if now - began > _LINGER:
                            break  # the loop is busy
                    woken = now
                    with self._lock:
                        self._wake_one()
        finally:
            self.stop()

    def _start_thread(self) -> None:
        """Start one more thread if there is work for it: a worker may have become idle since it was requested."""
        with self._lock:
            self._waking = False
            full = self._stopped or len(self._workers) >= self._lanes.limit
            if self._nursery is None or self._idle or full or not self._lanes.is_waiting():
                self._wake_one()
                return
            self._waking = True
            worker = _Thread()
            self._workers.add(worker)
        self._nursery.start_soon(self._host, worker)

    @trio.lowlevel.enable_ki_protection
    async def _host(self, worker: _Thread) -> None:
        mark(self._finished, worker)  # the thread runs in a copy of this context
        await trio.to_thread.run_sync(self._work, worker, abandon_on_cancel=True, limiter=self._limiter)

    # --- in any thread ----------------------------------------------------------------------------------

    def _start_one(self) -> bool:
        return self._nursery is not None and self._in_trio_thread(self._start_thread)

    def _open(self, worker: _Thread) -> None:
        worker.gate.release()

    def _tell(self) -> None:
        self._in_trio_thread(self._report)

    def _in_trio_thread(self, function: Callable[[], None]) -> bool:
        try:
            tell_loop(self._token, function, idempotent=True)
        except trio.RunFinishedError:
            self._stopped = True
            return False
        return True

    # --- in the threads ---------------------------------------------------------------------------------

    def _work(self, worker: _Thread) -> None:
        """Make the calls of one lane after another, and wait while there are none."""
        worker.thread = threading.get_ident()
        lane, arrived = None, True
        while True:
            lane = self._next_lane(worker, lane, arrived=arrived)
            if lane is not None:
                self._make_calls(worker, lane)
                arrived = False
            elif self._stopped:
                return
            else:
                self._rest(worker)
                arrived = True

    def _rest(self, worker: _Thread) -> None:
        """Wait until the worker is taken off the idle list.

        While messages stream in, that is soon, and the trio thread takes what has ended when it brings the next ones:
        waking it would cost as much as many calls.
        """
        if not self._finished.untold:
            worker.gate.acquire()
            return
        came = worker.gate.acquire(timeout=_LINGER)
        if self._finished.untold:  # the trio thread has not taken them
            self._tell_ended()
        if not came:
            worker.gate.acquire()

    def _make_calls(self, worker: _Thread, lane: Lane) -> None:
        """Make calls of a lane for one turn."""
        finished = self._finished
        call: Call | None = None
        for call in self._calls_of(worker, lane):
            try:
                outcome = call[0](call[2])
            except BaseException as exc:  # noqa: BLE001  whatever a listener raises is its result; the thread goes on
                outcome = Raised(exc)
            worker.call = None
            if outcome is None:
                finished.succeeded.append(call)
            else:
                self._note(lane, call, outcome)
        if call is None:
            return
        finished.untold = True
        # What can wait is told when the thread has nothing else to do, or after the next turn.
        if finished.others or call[1].is_awaited or self._clock() - worker.told > YIELD_AFTER:
            worker.told = self._clock()
            self._tell_ended()


def runner_for_plain_listeners(limit: int, finished: Finished, report: Callable[[], None]) -> ListenerRunner:
    """Make the runner of plain listeners: with threads, or under a mock clock in the trio thread."""
    if type(trio.lowlevel.current_clock()).__name__ == "MockClock":
        return _InPlaceRunner(limit, finished, report)
    return ThreadRunner(limit, finished, report)


class _InPlaceRunner(TaskRunner):
    """Calls plain listeners in the trio thread."""

    _awaits = False
