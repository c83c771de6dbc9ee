"""Calling async listeners in the user's event loop.

Calls go over in batches: the portal puts them into a deque and wakes the loop once. There the workers, each a task,
take one after the other, as those of `rocketpy.consumer.runners.TaskRunner` do, and what came of them goes back with
one post for all that have ended meanwhile. Every call runs in a copy of the context in which the consumer was entered.
What is wrong with the workers themselves ends the consumer, loudly.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.consumer.inside import mark
from rocketpy.consumer.lanes import Lane, Lanes
from rocketpy.consumer.listeners import Raised
from rocketpy.consumer.runners import YIELD_AFTER, Call, Finished
from rocketpy.errors import ClientClosedError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    import contextvars

    from rocketpy.aio.bridge import Bridge

__all__ = ["LoopRunner"]

logger = get_logger(__name__)

_PATIENCE = 1.0
"""Seconds that listeners have to clean up after they were cancelled."""

_PAUSE = 0.1
"""Seconds without new workers after somebody else cancelled one: it may have been the end of `asyncio.run`."""


class _Worker:
    """One task. The portal reads `call` first and `since` after it, the loop writes them the other way round."""

    __slots__ = ("call", "context", "gate", "since", "task")

    def __init__(self, context: contextvars.Context) -> None:
        self.call: Call | None = None
        self.since = 0.0
        self.context = context
        self.gate: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None


class LoopRunner:
    """Calls async listeners in the loop of a bridge. Made in the portal.

    Deques and flags are what the two threads share, each touched by one atomic operation at a time.

    Args:
        bridge: to the loop.
        limit: calls at a time.
        finished: where ended calls go.
        report: called in the portal when there are some.
    """

    def __init__(self, bridge: Bridge, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._bridge = bridge
        self._lanes = Lanes(limit)
        self._finished = finished
        self._report = report
        self._changes: deque[Callable[[], object]] = deque()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._asked = False
        self._told = False
        self._waking = False
        self._paused = False
        self._stopped = False
        self._cut_off = False
        self._crash: Exception | None = None
        self._ended = trio.Event()
        self._over = trio.Event()
        self._clock = trio.lowlevel.current_clock().current_time

    # --- in the portal ----------------------------------------------------------------------------------

    def submit(self, topic: str, calls: Iterable[Call]) -> None:
        """Make these calls."""
        self._change(partial(self._lanes.put, topic, calls))

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        self._change(partial(self._lanes.share, topics))

    def allow(self, extra: int) -> None:
        """Let so many more calls run."""
        self._change(partial(self._lanes.allow, extra))

    def _change(self, change: Callable[[], object]) -> None:
        """Have the lanes changed in the loop, which alone touches them."""
        self._changes.append(change)
        if not self._asked or self._bridge.loop.is_closed():
            self._asked = True
            self._bridge.inbox.deliver(self._look)

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way."""
        now = [(worker.call, worker.since) for worker in tuple(self._workers)]
        return [(call, since) for call, since in now if call is not None]

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped = True
        if not self._in_loop(self._let_idle_go):
            self._note_ended()

    async def run(self) -> None:
        """The service. When it is cancelled, so are the listeners."""
        try:
            await self._over.wait()
        finally:
            if not self._ended.is_set():
                await self._cut_listeners_off()
        if self._crash is not None:
            raise self._crash

    async def _cut_listeners_off(self) -> None:
        self._stopped = self._cut_off = True
        if self._in_loop(self._cancel_workers):
            with trio.CancelScope(deadline=trio.current_time() + _PATIENCE, shield=True):
                await self._ended.wait()
        if not self._ended.is_set() and self._workers:
            logger.warning(
                "%d listeners of %s did not end when they were cancelled, and are left alone",
                len(self._workers),
                self._bridge.what,
            )

    def _in_loop(self, function: Callable[[], None]) -> bool:
        """Have it called in the loop; False when that does not run, so that nobody should wait for it."""
        return self._bridge.inbox.deliver(function) and self._bridge.loop.is_running()

    def _note_ended(self) -> None:
        """No worker is left."""
        self._ended.set()
        self._over.set()

    def _tell(self) -> None:
        self._told = False
        self._report()

    # --- in the loop ------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._asked = False
        while self._changes:
            self._changes.popleft()()
        self._wake_one()

    def _wake_one(self, besides: Lane | None = None) -> None:
        """Have one more worker look for calls, unless one is on its way to them already."""
        if self._waking or self._paused or self._stopped or not self._lanes.is_waiting(besides):
            return
        # Set before there is a task: a factory of the user may run its first step at once.
        if self._idle:
            self._waking = True
            self._open(self._idle.pop())
        elif len(self._workers) < self._lanes.limit:
            self._waking = True
            self._start_worker()

    def _start_worker(self) -> None:
        worker = _Worker(self._bridge.context.copy())
        worker.context.run(mark, self._finished, worker)
        self._workers.add(worker)
        work = self._work(worker)
        try:
            # Within the context, for a factory of the user need not know the argument of that name.
            worker.task = worker.context.run(self._bridge.loop.create_task, work)
        except Exception as exc:  # noqa: BLE001 - without workers nothing would ever be consumed again
            work.close()
            self._workers.discard(worker)
            self._fail(exc)

    def _fail(self, error: Exception) -> None:
        """Have the consumer end with this error, which is none of a listener."""
        if self._crash is None:
            self._crash = error
        self._stopped = True
        self._let_idle_go()
        self._post(self._over.set)

    @staticmethod
    def _open(worker: _Worker) -> None:
        if worker.gate is not None and not worker.gate.done():
            worker.gate.set_result(None)

    def _let_idle_go(self) -> None:
        while self._idle:
            self._open(self._idle.pop())
        self._note_end()

    def _cancel_workers(self) -> None:
        for worker in self._workers:
            if worker.task is not None:
                worker.task.cancel()
        self._note_end()

    def _note_end(self) -> None:
        if self._stopped and not self._workers:
            self._post(self._note_ended)

    def _post(self, function: Callable[[], None]) -> None:
        try:
            self._bridge.portal.post(function)
        except ClientClosedError:
            self._stopped = True  # the process ends

    async def _work(self, worker: _Worker) -> None:
        """Go through the lanes; wait when there is nothing to do."""
        try:
            await asyncio.sleep(0)  # not inside of its starter, even where a factory runs the first step at once
            self._waking = False
            while not self._stopped:
                lane = self._lanes.enter()
                if lane is not None:
                    try:
                        await self._make_calls(worker, lane)
                    finally:
                        self._lanes.leave(lane)
                    continue
                worker.gate = self._bridge.loop.create_future()
                self._idle.append(worker)
                await worker.gate
                self._waking = False
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

    async def _make_calls(self, worker: _Worker, lane: Lane) -> None:
        """Make calls of a lane, until there are none or it is another's turn. One's failure is that call's affair."""
        self._wake_one(besides=lane)
        calls, clock = lane.calls, self._clock
        since = clock()
        while calls and not self._stopped:
            call = calls.popleft()
            if calls and not lane.full:
                self._wake_one()
            if call[1].dropped:
                continue
            worker.since = clock()
            worker.call = call
            try:
                await self._make(worker, call)
            finally:
                worker.call = None
            if clock() - since > YIELD_AFTER:
                # A listener that never waits would keep everything else from running.
                await asyncio.sleep(0)
                return

    async def _make(self, worker: _Worker, call: Call) -> None:
        try:
            outcome = await _in_context(worker.context.copy(), _called(call))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as exc:
            if self._cut_off:
                raise  # neither acknowledged nor given back: somebody gets it again
            self._note(call, Raised(exc))
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except BaseException as exc:  # noqa: BLE001 - what a listener raises is its answer
            self._note(call, Raised(exc))
        else:
            self._note(call, outcome)

    def _note(self, call: Call, outcome: object) -> None:
        if outcome is None:
            self._finished.succeeded.append(call)
        else:
            self._finished.others.append((call, outcome))
        if not self._told:
            self._told = True
            self._post(self._tell)


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
