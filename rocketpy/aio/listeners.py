"""LoopRunner: calls async listeners in the user's event loop.

Calls are passed on in batches: the portal appends them to a deque and wakes the loop once. There a crew of tasks makes
them (see `rocketpy.consumer.calling.crew`), and one post to the portal reports all calls that have ended meanwhile.
Every call runs in a copy of the context in which the consumer was entered. An error in the workers themselves ends the
consumer, and is raised there.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.consumer.calling.crew import YIELD_AFTER, AsyncCrew, Worker
from rocketpy.consumer.calling.runners import RemoteRunner
from rocketpy.consumer.inside import mark
from rocketpy.consumer.listeners import Raised
from rocketpy.errors import ClientClosedError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    import contextvars

    from rocketpy.aio.bridge import Bridge
    from rocketpy.consumer.calling.lanes import Lane
    from rocketpy.consumer.calls import Call, Finished

__all__ = ["LoopRunner"]

logger = get_logger(__name__)

_PATIENCE = 1.0
"""Seconds that cancelled listeners have to clean up."""

_PAUSE = 0.1
"""Seconds without new workers after one was cancelled from outside: it may have been the end of `asyncio.run`."""


class LoopRunner(RemoteRunner):
    """Calls async listeners in the loop of a bridge. Made in the portal.

    The two threads share only deques and flags, and change each of them in atomic operations.

    Args:
        bridge: leads to the loop.
        limit: how many calls may run at the same time.
        finished: where ended calls go.
        report: called in the portal when calls have ended.
    """

    def __init__(self, bridge: Bridge, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._tasks = LoopCrew(bridge, limit, finished, report)
        super().__init__(self._tasks, self._in_turn)
        self._bridge = bridge
        self._changes: deque[Callable[[], object]] = deque()
        self._asked = False

    def _in_turn(self, change: Callable[[], object]) -> None:
        """Have a function that changes the crew called in the loop, which alone may touch it."""
        self._changes.append(change)
        if not self._asked or self._bridge.loop.is_closed():
            self._asked = True
            self._bridge.inbox.deliver(self._look)

    def _look(self) -> None:
        """Make the changes that were passed in. In the loop."""
        self._asked = False
        while self._changes:
            self._changes.popleft()()

    def stop(self) -> None:
        """Start no more calls."""
        self._tasks.stopping()
        if not self._in_loop(self._tasks.stop):
            self._tasks.note_ended()

    async def run(self) -> None:
        """Run the service until `stop` was called and the last call has ended. Cancelling it cancels the listeners."""
        tasks = self._tasks
        try:
            await tasks.over.wait()
        finally:
            if not tasks.ended.is_set():
                await self._cut_listeners_off()
        if tasks.crash is not None:
            raise tasks.crash

    async def _cut_listeners_off(self) -> None:
        tasks = self._tasks
        tasks.stopping(cut_off=True)
        if self._in_loop(tasks.cancel):
            with trio.CancelScope(deadline=trio.current_time() + _PATIENCE, shield=True):
                await tasks.ended.wait()
        if not tasks.ended.is_set() and len(tasks):
            logger.warning(
                "%d listeners of %s did not end when they were cancelled, and are left alone",
                len(tasks),
                self._bridge.what,
            )

    def _in_loop(self, function: Callable[[], None]) -> bool:
        """Have a function called in the loop; False if the loop does not run, so that there is nothing to wait for."""
        return self._bridge.inbox.deliver(function) and self._bridge.loop.is_running()


class _Task(Worker):
    """A worker that is a task."""

    __slots__ = ("context", "gate", "has_begun", "task")

    def __init__(self, context: contextvars.Context) -> None:
        super().__init__()
        self.context = context
        self.gate: asyncio.Future[None] | None = None
        self.has_begun = False
        self.task: asyncio.Task[None] | None = None


class LoopCrew(AsyncCrew[_Task]):
    """The workers in the user's loop. Its methods are called there, except `stopping` and `note_ended`.

    Attributes:
        crash: an error in the workers themselves, None if there is none.
        over: set in the portal when no worker is left, or when there is a crash.
        ended: set in the portal when no worker is left.
    """

    def __init__(self, bridge: Bridge, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        super().__init__(limit, finished, report, clock=trio.lowlevel.current_clock().current_time)
        self._bridge = bridge
        self._told = False
        self._paused = False
        self._cut_off = False
        self.crash: Exception | None = None
        self.ended = trio.Event()
        self.over = trio.Event()

    def __len__(self) -> int:
        """How many workers are left."""
        return len(self._workers)

    # --- in the portal ----------------------------------------------------------------------------------

    def stopping(self, *, cut_off: bool = False) -> None:
        """Start no more calls; with `cut_off`, the running ones are about to be cancelled."""
        self._stopped = True
        self._cut_off = self._cut_off or cut_off

    def note_ended(self) -> None:
        """Report that no worker is left."""
        self.ended.set()
        self.over.set()

    def _reported(self) -> None:
        # Cleared first, so that calls that end from here on are reported again.
        self._told = False
        self._report()

    # --- in the loop ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let idle workers end."""
        super().stop()
        self._note_end()

    def cancel(self) -> None:
        """Cancel the listeners."""
        for worker in self._workers:
            if worker.task is not None:
                worker.task.cancel()
        self._note_end()

    def _note_end(self) -> None:
        if self._stopped and not self._workers:
            self._post(self.note_ended)

    def _post(self, function: Callable[[], None]) -> None:
        try:
            self._bridge.portal.post(function)
        except ClientClosedError:
            self._stopped = True  # the process ends

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._post(self._reported)

    def _fail(self, error: Exception) -> None:
        """Have the consumer end with an error that does not come from a listener."""
        if self.crash is None:
            self.crash = error
        self.stop()
        self._post(self.over.set)

    def _start_one(self) -> bool:
        if self._paused:
            return False
        worker = _Task(self._bridge.context.copy())
        worker.context.run(mark, self._finished, worker)
        self._workers.add(worker)
        hosted = self._host(worker)
        try:
            # Not with `context=`, since a task factory of the user's may not accept that argument.
            worker.task = worker.context.run(self._bridge.loop.create_task, hosted)
        except Exception as exc:  # noqa: BLE001 - a task factory may raise anything, and ends the consumer
            hosted.close()
            self._workers.discard(worker)
            self._fail(exc)
            return False
        # One that other code cancels before its first step does not run at all.
        worker.task.add_done_callback(lambda _: None if worker.has_begun else self._left(worker))
        return True

    async def _host(self, worker: _Task) -> None:
        worker.has_begun = True
        try:
            await asyncio.sleep(0)  # not inside `_start_one`, even if a task factory runs the first step at once
            await self._work(worker)
        except Exception as exc:  # noqa: BLE001 - a bug in the worker ends the consumer
            self._fail(exc)
        finally:
            self._left(worker)

    def _left(self, worker: _Task) -> None:
        """A task has ended. It may have been cancelled in any state, and the next call must still find a worker."""
        if worker in self._idle:
            self._idle.remove(worker)
        self._waking = False
        self._workers.discard(worker)
        if not self._stopped and not self._paused:
            self._paused = True
            self._bridge.loop.call_later(_PAUSE, self._go_on)
        self._note_end()

    def _go_on(self) -> None:
        self._paused = False
        self._wake_one()

    def _open(self, worker: _Task) -> None:
        if worker.gate is not None and not worker.gate.done():
            worker.gate.set_result(None)

    def _close_gate(self, worker: _Task) -> None:
        worker.gate = None

    async def _wait(self, worker: _Task) -> None:
        worker.gate = self._bridge.loop.create_future()
        await worker.gate

    async def _make_calls(self, worker: _Task, lane: Lane) -> None:
        began = self._clock()
        for call in self._calls_of(worker, lane):
            try:
                await self._make(worker, lane, call)
            finally:
                worker.call = None
            self._tell_ended()
        if self._clock() - began > YIELD_AFTER:
            await asyncio.sleep(0)

    async def _make(self, worker: _Task, lane: Lane, call: Call) -> None:
        try:
            outcome = await _in_context(worker.context.copy(), _called(call))
        except KeyboardInterrupt:
            raise
        except GeneratorExit as exc:
            if asyncio.current_task() is not worker.task:
                raise  # the interpreter takes the task down, from outside; otherwise it is the listener's own
            self._note(lane, call, Raised(exc))
        except asyncio.CancelledError as exc:
            if self._cut_off:
                raise  # neither committed nor sent back, so the group gets the message again
            task = asyncio.current_task()
            cut_off = task is not None and task.cancelling() > 0
            self._note(lane, call, Raised(exc, cut_off=cut_off))
            self._tell()
            if cut_off:
                raise
        except BaseException as exc:  # noqa: BLE001 - whatever a listener raises is its result
            self._note(lane, call, Raised(exc))
        else:
            self._note(lane, call, outcome)


async def _called(call: Call) -> Any:
    return await call[0](call[2])


@types.coroutine
def _in_context(context: contextvars.Context, coroutine: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
    """Await a coroutine, running each of its steps in `context`; the task remains the one that awaits."""
    step: Callable[[], Any] = partial(coroutine.send, None)
    while True:
        try:
            awaited = context.run(step)
        except StopIteration as stop:
            return stop.value
        try:
            step = partial(coroutine.send, (yield awaited))
        except BaseException as exc:  # noqa: BLE001 - passed on into the coroutine, which handles it or not
            step = partial(coroutine.throw, exc)
