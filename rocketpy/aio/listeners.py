"""Calling async listeners in the user's event loop.

Calls go over in batches: the portal puts them into a deque and wakes the loop once. There the workers, each a task,
take one after the other, as those of every `rocketpy.consumer.crew` do, and what came of them goes back with
one post for all that have ended meanwhile. Every call runs in a copy of the context in which the consumer was entered.
What is wrong with the workers themselves ends the consumer, loudly.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.consumer.crew import AsyncCrew, Call, Finished, Worker
from rocketpy.consumer.inside import mark
from rocketpy.consumer.listeners import Raised
from rocketpy.consumer.runners import RemoteRunner
from rocketpy.errors import ClientClosedError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    import contextvars

    from rocketpy.aio.bridge import Bridge
    from rocketpy.consumer.lanes import Lane

__all__ = ["LoopRunner"]

logger = get_logger(__name__)

_PATIENCE = 1.0
"""Seconds that listeners have to clean up after they were cancelled."""

_PAUSE = 0.1
"""Seconds without new workers after somebody else cancelled one: it may have been the end of `asyncio.run`."""


class LoopRunner(RemoteRunner):
    """Calls async listeners in the loop of a bridge. Made in the portal.

    Deques and flags are what the two threads share, each touched by one atomic operation at a time.

    Args:
        bridge: to the loop.
        limit: calls at a time.
        finished: where ended calls go.
        report: called in the portal when there are some.
    """

    def __init__(self, bridge: Bridge, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._tasks = LoopCrew(bridge, limit, finished, report)
        super().__init__(self._tasks, self._in_turn)
        self._bridge = bridge
        self._changes: deque[Callable[[], object]] = deque()
        self._asked = False

    def _in_turn(self, change: Callable[[], object]) -> None:
        """Have the crew told in the loop, which alone touches it."""
        self._changes.append(change)
        if not self._asked or self._bridge.loop.is_closed():
            self._asked = True
            self._bridge.inbox.deliver(self._look)

    def _look(self) -> None:
        """In the loop."""
        self._asked = False
        while self._changes:
            self._changes.popleft()()

    def stop(self) -> None:
        """Begin no more calls."""
        self._tasks.stopping()
        if not self._in_loop(self._tasks.stop):
            self._tasks.note_ended()

    async def run(self) -> None:
        """The service. When it is cancelled, so are the listeners."""
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
        """Have it called in the loop; False when that does not run, so that nobody should wait for it."""
        return self._bridge.inbox.deliver(function) and self._bridge.loop.is_running()


class _Task(Worker):
    """One task."""

    __slots__ = ("context", "gate", "task")

    def __init__(self, context: contextvars.Context) -> None:
        super().__init__()
        self.context = context
        self.gate: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None


class LoopCrew(AsyncCrew[_Task]):
    """The workers in the user's loop. Its methods are called there, but for `stopping` and `note_ended`.

    Attributes:
        crash: what is wrong with the workers themselves.
        over: set in the portal when no worker is left, or when it crashed.
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
        """Begin no more calls; with `cut_off`, those under way are about to be cancelled."""
        self._stopped = True
        self._cut_off = self._cut_off or cut_off

    def note_ended(self) -> None:
        """No worker is left."""
        self.ended.set()
        self.over.set()

    def _reported(self) -> None:
        # Cleared first: what ends from here on is told again.
        self._told = False
        self._report()

    # --- in the loop ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let those go that are idle."""
        super().stop()
        self._note_end()

    def cancel(self) -> None:
        """Cut listeners off."""
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
        """Have the consumer end with this error, which is none of a listener."""
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
            # Within the context, for a factory of the user need not know the argument of that name.
            worker.task = worker.context.run(self._bridge.loop.create_task, hosted)
        except Exception as exc:  # noqa: BLE001 - without workers nothing would ever be consumed again
            hosted.close()
            self._workers.discard(worker)
            self._fail(exc)
            return False
        return True

    async def _host(self, worker: _Task) -> None:
        try:
            await asyncio.sleep(0)  # not inside of its starter, even where a factory runs the first step at once
            await self._work(worker)
        except Exception as exc:  # noqa: BLE001 - a bug in here
            self._fail(exc)
        finally:
            # Somebody may have cancelled it in any state, and the next call must find a worker all the same.
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

    async def _breathe(self) -> None:
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
                raise  # neither acknowledged nor given back: somebody gets it again
            self._note(lane, call, Raised(exc))
            self._tell()
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except BaseException as exc:  # noqa: BLE001 - what a listener raises is its answer
            self._note(lane, call, Raised(exc))
        else:
            self._note(lane, call, outcome)


async def _called(call: Call) -> Any:
    return await call[0](call[2])


@types.coroutine
def _in_context(context: contextvars.Context, coroutine: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
    """Await a coroutine with every step of it in a context of its own; the task stays that of whoever awaits."""
    step: Callable[[], Any] = partial(coroutine.send, None)
    while True:
        try:
            awaited = context.run(step)
        except StopIteration as stop:
            return stop.value
        try:
            step = partial(coroutine.send, (yield awaited))
        except BaseException as exc:  # noqa: BLE001 - thrown into the coroutine, which may do with it what it likes
            step = partial(coroutine.throw, exc)
