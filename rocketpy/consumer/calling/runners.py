"""Runners, which call listeners: the protocol, and the runner of async listeners.

A runner is given calls, makes a limited number of them at the same time, and reports the results. Each runner has a
crew of workers (see `crew`). Other surfaces bring runners of their own, such as one that calls in another loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import trio

from rocketpy.consumer.calling.crew import YIELD_AFTER, AsyncCrew, Crew, Worker
from rocketpy.consumer.calls import Call, Finished
from rocketpy.consumer.inside import mark
from rocketpy.consumer.listeners import Raised, let_pass

if TYPE_CHECKING:
    from rocketpy.consumer.calling.lanes import Lane

__all__ = ["ListenerRunner", "RemoteRunner", "RunnerMaker", "TaskRunner"]


class ListenerRunner(Protocol):
    """Calls listeners."""

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Add calls to a lane; they start in this order. In the trio thread."""
        ...

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics, so that none takes all of them. In the trio thread."""
        ...

    async def run(self) -> None:
        """Run the service. It returns once `stop` was called and the last call has ended."""
        ...

    def stop(self) -> None:
        """Start no more calls. In the trio thread."""
        ...

    def running(self) -> list[tuple[Call, float]]:
        """The calls that are running, each with its start on trio's clock. Thread-safe."""
        ...

    def allow(self, extra: int) -> None:
        """Let `extra` calls more than the limit run, or fewer if it is negative. In the trio thread."""
        ...

    def order(self, key: Hashable, until: float) -> None:
        """Make the calls of a lane in order, one at a time, and start none after `until`. In the trio thread."""
        ...

    def again(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Open an ordered lane that an unsuccessful call has closed, with these calls first. In the trio thread."""
        ...

    def close(self, key: Hashable) -> None:
        """Forget the waiting calls of a lane; its key is in `Finished.out` once none runs. In the trio thread."""
        ...


RunnerMaker: TypeAlias = Callable[[int, Finished, Callable[[], None]], ListenerRunner]
"""Makes a runner, from the limit of calls at a time, where ended calls go, and the function that reports them."""


class RemoteRunner:
    """The part in the trio thread of a runner whose crew belongs to another loop.

    Args:
        crew: the crew, which only that loop may touch.
        change: has a function called in that loop; functions are called in the order in which they were passed.
    """

    def __init__(self, crew: Crew[Any], change: Callable[[Callable[[], object]], None]) -> None:
        self._crew = crew
        self._change = change

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Add calls to a lane."""
        self._change(partial(self._crew.submit, key, list(calls)))

    def share(self, topics: Collection[str]) -> None:
        """Keep workers for each of these topics."""
        self._change(partial(self._crew.share, topics))

    def allow(self, extra: int) -> None:
        """Let `extra` calls more than the limit run."""
        self._change(partial(self._crew.allow, extra))

    def order(self, key: Hashable, until: float) -> None:
        """Make the calls of a lane in order, and start none after `until`."""
        self._change(partial(self._crew.order, key, until))

    def again(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Open an ordered lane, with these calls first."""
        self._change(partial(self._crew.again, key, list(calls)))

    def close(self, key: Hashable) -> None:
        """Forget the waiting calls of a lane."""
        self._change(partial(self._crew.close, key))

    def running(self) -> list[tuple[Call, float]]:
        """The calls that are running, each with its start."""
        return self._crew.running()


class _Task(Worker):
    """A worker that is a task."""

    __slots__ = ("gate", "task")

    def __init__(self) -> None:
        super().__init__()
        self.gate = trio.Event()
        self.task: trio.lowlevel.Task  # as soon as it runs


class TaskRunner(AsyncCrew[_Task]):
    """Calls async listeners; its workers are tasks.

    Args:
        limit: how many calls may run at the same time.
        finished: where ended calls go.
        report: called in this loop when calls have ended.
        clock: the time in seconds; this loop's clock if None.
    """

    _awaits = True
    """Whether what a listener returns is awaited."""

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
        """Start no more calls."""
        super().stop()
        self._stop_asked.set()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the service until `stop` was called and the last call has ended."""
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

    @trio.lowlevel.enable_ki_protection
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

    @trio.lowlevel.disable_ki_protection
    async def _make_calls(self, worker: _Task, lane: Lane) -> None:
        began, finished, awaits = self._clock(), self._finished, self._awaits
        for call in self._calls_of(worker, lane):
            try:
                outcome = call[0](call[2])
                if awaits:
                    outcome = await outcome
            except BaseException as exc:  # noqa: BLE001  what a listener raises is its outcome
                worker.call = None
                let_pass(exc, worker.task)
                outcome = Raised(exc)
            worker.call = None
            if outcome is None:
                finished.succeeded.append(call)
            else:
                self._note(lane, call, outcome)
            if not finished.told:
                finished.told = True
                self._tell()
        if self._clock() - began > YIELD_AFTER:
            await trio.lowlevel.checkpoint()
