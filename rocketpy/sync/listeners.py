"""OwnLoopRunner: calls the async listeners of blocking code in a trio loop and thread that belong to the consumer.

It does not use the portal's loop, because a listener that computes for long, uses `time.sleep` or blocks in another way
would hold up every client of the process, and one that waits for the portal would wait for itself forever. Here it
holds up only the other async listeners of its consumer. The thread starts with the first call and ends with the
consumer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.calling.runners import RemoteRunner, TaskRunner
from rocketpy.consumer.inside import mark_thread
from rocketpy.errors import ServiceCrashedError
from rocketpy.logs import counted, get_logger
from rocketpy.services import tell_loop

if TYPE_CHECKING:
    from rocketpy.consumer.calls import Call, Finished

__all__ = ["OwnLoopRunner"]

logger = get_logger(__name__)

_PATIENCE = 1.0
"""Seconds that cancelled listeners have to clean up."""


class OwnLoopRunner(RemoteRunner):
    """Calls async listeners in a loop of its own. Made in the portal.

    In that loop a `TaskRunner` does the work. Changes reach it through a deque of functions. The calls that have ended
    come back through `finished`, to which any thread may append, with one wake-up for all of them.

    Args:
        limit: how many calls may run at the same time.
        finished: where ended calls go.
        report: called in the portal when calls have ended.
    """

    def __init__(self, limit: int, finished: Finished, report: Callable[[], None]) -> None:
        self._clock = trio.lowlevel.current_clock().current_time
        # Start times of calls and the `until` of lanes are times of the portal's clock.
        self._runner = TaskRunner(limit, finished, self._tell, clock=self._clock)
        super().__init__(self._runner, self._change)
        self._finished = finished
        self._report = report
        self._scope = trio.CancelScope()
        self._jobs: deque[Callable[[], object]] = deque()
        self._told = False
        self._stopped = False
        self._error: BaseException | None = None
        self._ended = trio.Event()
        self._home = trio.lowlevel.current_trio_token()
        self._loop: trio.lowlevel.TrioToken | None = None
        self._thread: threading.Thread | None = None

    # --- in the portal ----------------------------------------------------------------------------------

    def submit(self, key: Hashable, calls: Iterable[Call]) -> None:
        """Add calls to a lane; the first ones start the thread."""
        if self._stopped:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._host, name="rocketpy-listeners", daemon=True)
            self._thread.start()
        super().submit(key, calls)

    def _change(self, change: Callable[[], object]) -> None:
        """Have a function that changes the runner called in its loop; call it here while there is no loop yet."""
        if self._thread is None:
            change()
        else:
            self._in_loop(change)

    def stop(self) -> None:
        """Start no more calls."""
        self._stopped = True
        if self._thread is None:
            self._ended.set()
        else:
            self._in_loop(self._runner.stop)

    async def run(self) -> None:
        """Run the service until `stop` was called and the last call has ended. Cancelling it cancels the listeners."""
        try:
            await self._ended.wait()
        finally:
            if self._thread is not None and not self._ended.is_set():
                await self._cut_listeners_off()
        if self._error is not None:
            raise ServiceCrashedError(f"the loop of the async listeners ended with {self._error!r}") from self._error

    async def _cut_listeners_off(self) -> None:
        self._stopped = True
        self._in_loop(self._scope.cancel)
        with trio.CancelScope(deadline=trio.current_time() + _PATIENCE, shield=True):
            await self._ended.wait()
        if not self._ended.is_set():
            logger.warning(
                "%s did not end when cancelled, and the thread of the async listeners is left alone",
                counted(len(self._runner.running()), "async listener"),
            )

    def _in_loop(self, function: Callable[[], object]) -> None:
        """Have a function called in the loop, as soon as there is one."""
        self._jobs.append(function)
        if self._loop is not None:
            with suppress(trio.RunFinishedError):
                tell_loop(self._loop, self._drain, idempotent=True)

    def _reported(self) -> None:
        # Cleared first, so that calls that end from here on are reported again.
        self._told = False
        self._report()

    def _note_end(self, error: BaseException | None) -> None:
        self._error = error
        self._ended.set()

    # --- in the thread ----------------------------------------------------------------------------------

    def _host(self) -> None:
        mark_thread(self._finished)
        error: BaseException | None = None
        try:
            trio.run(self._run)
        except BaseException as exc:  # noqa: BLE001 - it ends the consumer, and is raised there
            error = exc
        with suppress(trio.RunFinishedError):  # the process ends
            tell_loop(self._home, partial(self._note_end, error))

    async def _run(self) -> None:
        with self._scope:
            # `_in_loop` appends a job and then looks for the loop: either it or the line below sees the job run.
            self._loop = trio.lowlevel.current_trio_token()
            self._drain()
            await self._runner.run()

    def _drain(self) -> None:
        jobs = self._jobs
        for _ in range(len(jobs)):
            jobs.popleft()()

    def _tell(self) -> None:
        """Report that calls have ended. In the loop."""
        if not self._told:
            self._told = True
            with suppress(trio.RunFinishedError):
                tell_loop(self._home, self._reported)
