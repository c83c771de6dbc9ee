"""Running listeners: what a runner is, and the one for async listeners.

A runner gets calls to make, makes up to so many of them at the same time, and hands back what came of them. Its workers
take one call after the other from the lane of a topic, which costs next to nothing, and change to the next lane every
few milliseconds; a worker that takes a call while others wait wakes one more worker first. So quick listeners are
called by one worker in a row, and slow ones side by side, whichever they turn out to be; and no topic holds up another
(see `lanes`). A facade may bring a runner of its own, for instance one that calls in another loop.
Plays the part of the consumeExecutor in ConsumeMessageConcurrentlyService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import trio

from rocketpy.consumer.inside import mark
from rocketpy.consumer.lanes import Lane, Lanes
from rocketpy.consumer.listeners import Raised, must_pass

if TYPE_CHECKING:
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt

__all__ = ["Call", "Finished", "ListenerRunner", "RunnerMaker", "TaskRunner", "messages_of"]

Call: TypeAlias = "tuple[Listener, ProcessQueue, MessageExt | list[MessageExt]]"
"""One call of a listener, with the queue that the messages are held in. A plain tuple, for there is one a message."""

YIELD_AFTER = 0.002
"""Seconds for which a worker goes on before it lets others see what it has done."""


def messages_of(call: Call) -> list[MessageExt]:
    """The messages of a call."""
    what = call[2]
    return what if isinstance(what, list) else [what]


class Finished:
    """Calls that have ended. Runners append, from any thread; the service takes."""

    def __init__(self) -> None:
        self.succeeded: deque[Call] = deque()
        """Calls that returned None."""
        self.others: deque[tuple[Call, object]] = deque()
        """Calls that returned something else, or raised."""

    def take_succeeded(self) -> list[Call]:
        """What has succeeded since the last time."""
        taken = self.succeeded
        return [taken.popleft() for _ in range(len(taken))]

    def take_others(self) -> list[tuple[Call, object]]:
        """What else has ended since the last time."""
        taken = self.others
        return [taken.popleft() for _ in range(len(taken))]


class ListenerRunner(Protocol):
    """Calls listeners."""

    def submit(self, topic: str, calls: Iterable[Call]) -> None:
        """Make these calls of a topic's listener, in this order as far as they begin. Plain; in the trio thread."""
        ...

    def share(self, topics: Collection[str]) -> None:
        """These topics have listeners of this runner's kind: none may take all workers. In the trio thread."""
        ...

    async def run(self) -> None:
        """The service. Ends after `stop` when the calls under way have ended, or when it is cancelled."""
        ...

    def stop(self) -> None:
        """Begin no more calls. Plain; in the trio thread."""
        ...

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way, each with its beginning on trio's clock. In the trio thread."""
        ...

    def allow(self, extra: int) -> None:
        """Let so many more calls run, `limit` more at most: for those that nobody waits for. In the trio thread."""
        ...


RunnerMaker: TypeAlias = Callable[[int, Finished, Callable[[], None]], ListenerRunner]
"""Makes a runner: from how many calls at a time, where ended calls go, and what to call in the trio thread then."""


class _Worker:
    """One task."""

    __slots__ = ("call", "gate", "since")

    def __init__(self) -> None:
        self.call: Call | None = None
        self.since = 0.0
        self.gate = trio.Event()


class TaskRunner:
    """Calls async listeners, each worker a task.

    Args:
        limit: calls at a time.
        finished: where ended calls go.
        report: called in the trio thread when there are some.
    """

    def __init__(self, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._lanes = Lanes(limit)
        self._finished = finished
        self._report = report
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._waking = False
        self._stopped = trio.Event()
        self._nursery: trio.Nursery | None = None

    def submit(self, topic: str, calls: Iterable[Call]) -> None:
        """Make these calls."""
        self._lanes.put(topic, calls)
        self._wake_one()

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        self._lanes.share(topics)
        self._wake_one()

    def stop(self) -> None:
        """Begin no more calls."""
        self._stopped.set()
        while self._idle:
            self._idle.pop().gate.set()

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way. For any thread, which reads `call` first: a call never looks older than it is."""
        now = [(worker.call, worker.since) for worker in tuple(self._workers)]
        return [(call, since) for call, since in now if call is not None]

    def allow(self, extra: int) -> None:
        """Let so many more calls run."""
        self._lanes.allow(extra)
        self._wake_one()

    async def run(self) -> None:
        """The service."""
        async with trio.open_nursery() as self._nursery:
            self._wake_one()
            await self._stopped.wait()

    def _wake_one(self, besides: Lane | None = None) -> None:
        """Have one more worker look for calls, unless one is on its way to them already."""
        if self._waking or self._stopped.is_set() or self._nursery is None or not self._lanes.is_waiting(besides):
            return
        if self._idle:
            self._idle.pop().gate.set()
        elif len(self._workers) < self._lanes.limit:
            worker = _Worker()
            self._workers.add(worker)
            self._nursery.start_soon(self._work, worker)
        else:
            return
        self._waking = True

    async def _work(self, worker: _Worker) -> None:
        """Go through the lanes; wait when there is nothing to do."""
        mark(self._finished, worker)
        self._waking = False
        while not self._stopped.is_set():
            lane = self._lanes.enter()
            if lane is not None:
                try:
                    await self._make_calls(worker, lane)
                finally:
                    self._lanes.leave(lane)
                continue
            worker.gate = trio.Event()
            self._idle.append(worker)
            await worker.gate.wait()
            self._waking = False

    async def _make_calls(self, worker: _Worker, lane: Lane) -> None:
        """Make calls of a lane, until there are none or it is another's turn. One's failure is that call's affair."""
        self._wake_one(besides=lane)
        calls, since = lane.calls, trio.current_time()
        while calls and not self._stopped.is_set():
            call = calls.popleft()
            if calls and not lane.full:
                self._wake_one()
            if call[1].dropped:
                continue
            worker.since = trio.current_time()
            worker.call = call
            try:
                outcome = await call[0](call[2])
            except BaseException as exc:
                if must_pass(exc):
                    raise
                outcome = Raised(exc)
            finally:
                worker.call = None
            self._note(call, outcome)
            if trio.current_time() - since > YIELD_AFTER:
                # A listener that never waits would keep everything else from running.
                await trio.lowlevel.checkpoint()
                return

    def _note(self, call: Call, outcome: Any) -> None:
        if outcome is None:
            self._finished.succeeded.append(call)
        else:
            self._finished.others.append((call, outcome))
        self._report()
