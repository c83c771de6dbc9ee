"""Running listeners: what a runner is, and the one for async listeners.

A runner gets calls to make, makes up to so many of them at the same time, and hands back what came of them: see `crew`,
of which each runner has one. A facade may bring a runner of its own, for instance one that calls in another loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import trio

from rocketpy.consumer.crew import AsyncCrew, Call, Crew, Finished, Worker
from rocketpy.consumer.inside import mark
from rocketpy.consumer.listeners import Raised, let_pass

if TYPE_CHECKING:
    from rocketpy.consumer.lanes import Lane

__all__ = ["ListenerRunner", "RemoteRunner", "RunnerMaker", "TaskRunner"]


class ListenerRunner(Protocol):
    """Calls listeners."""

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Make these calls of a lane, in this order as far as they begin. Plain; in the trio thread."""
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
        """The calls under way, each with its beginning on trio's clock. For any thread."""
        ...

    def allow(self, extra: int) -> None:
        """Let so many more calls run, `limit` more at most: for those that nobody waits for. In the trio thread."""
        ...

    def order(self, key: Hashable, until: float) -> None:
        """Call in order in this lane, one call at a time, and begin none from `until` on. In the trio thread."""
        ...

    def again(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Go on in a lane with an order after a call that was no success, with these first. In the trio thread."""
        ...

    def close(self, key: Hashable) -> None:
        """Forget the calls of a lane; `Finished.out` tells when none is under way. In the trio thread."""
        ...


RunnerMaker: TypeAlias = Callable[[int, Finished, Callable[[], None]], ListenerRunner]
"""Makes a runner: from how many calls at a time, where ended calls go, and what to call in the trio thread then."""


class RemoteRunner:
    """The plain half of a runner whose crew works in another loop, which alone touches it.

    Args:
        crew: of that loop.
        change: has a function called there, in the order of the calls.
    """

    def __init__(self, crew: Crew[Any], change: Callable[[Callable[[], object]], None]) -> None:
        self._crew = crew
        self._change = change

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Make these calls."""
        self._change(partial(self._crew.submit, key, list(calls)))

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        self._change(partial(self._crew.share, topics))

    def allow(self, extra: int) -> None:
        """Let so many more calls run."""
        self._change(partial(self._crew.allow, extra))

    def order(self, key: Hashable, until: float) -> None:
        """Call in order in this lane."""
        self._change(partial(self._crew.order, key, until))

    def again(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Go on in a lane with an order."""
        self._change(partial(self._crew.again, key, list(calls)))

    def close(self, key: Hashable) -> None:
        """Forget the calls of a lane."""
        self._change(partial(self._crew.close, key))

    def running(self) -> list[tuple[Call, float]]:
        """The calls under way."""
        return self._crew.running()


class _Task(Worker):
    """One task."""

    __slots__ = ("gate", "task")

    def __init__(self) -> None:
        super().__init__()
        self.gate = trio.Event()
        self.task: trio.lowlevel.Task  # as soon as it runs


class TaskRunner(AsyncCrew[_Task]):
    """Calls async listeners, each worker a task.

    Args:
        limit: calls at a time.
        finished: where ended calls go.
        report: called in this loop when there are some.
        clock: tells the time; that of this loop unless another one is to count.
    """

    def __init__(
        self,
        limit: int,
        finished: Finished,
        report: Callable[[], None],
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(limit, finished, report, clock=clock or trio.lowlevel.current_clock().current_time)
        self._stop_asked = trio.Event()
        self._nursery: trio.Nursery | None = None

    def stop(self) -> None:
        """Begin no more calls."""
        super().stop()
        self._stop_asked.set()

    async def run(self) -> None:
        """The service."""
        async with trio.open_nursery() as self._nursery:
            self._wake_one()
            await self._stop_asked.wait()

    def _start_one(self) -> bool:
        if self._nursery is None:
            return False
        worker = _Task()
        self._workers.add(worker)
        self._nursery.start_soon(self._host, worker)
        return True

    async def _host(self, worker: _Task) -> None:
        worker.task = trio.lowlevel.current_task()
        mark(self._finished, worker)
        await self._work(worker)

    def _tell(self) -> None:
        self._report()

    def _open(self, worker: _Task) -> None:
        worker.gate.set()

    def _close_gate(self, worker: _Task) -> None:
        if worker.gate.is_set():
            worker.gate = trio.Event()

    async def _wait(self, worker: _Task) -> None:
        await worker.gate.wait()

    async def _breathe(self) -> None:
        await trio.lowlevel.checkpoint()

    async def _called(self, call: Call) -> object:
        outcome: object = await call[0](call[2])
        return outcome

    async def _make(self, worker: _Task, lane: Lane, call: Call) -> None:
        try:
            outcome = await self._called(call)
        except BaseException as exc:  # noqa: BLE001  what a listener raises is its outcome
            let_pass(exc, worker.task)
            outcome = Raised(exc)
        self._note(lane, call, outcome)
