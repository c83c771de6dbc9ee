"""FlushThread: a thread that waits for the next flush, for a broker that flushes before it answers.

To hand a call to one of trio's threads costs about as much as a flush on a good disk; to wake a thread that waits costs
half of it. The thread lives as long as its service does and runs one call after the other.
Plays the part of the thread of GroupCommitService.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

import trio

from rocketpy.services import runs_blocking_in_place

__all__ = ["FlushThread"]


class _Call:
    """One call, and what it raised."""

    __slots__ = ("failure", "function", "task")

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.task = trio.lowlevel.current_task()
        self.failure: BaseException | None = None


class FlushThread:
    """Runs blocking calls that return nothing.

    Attributes:
        is_open: Whether it takes calls; without it they go to any thread.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._is_wanted = False
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Keep the thread until cancelled; a call that runs then is waited for."""
        if runs_blocking_in_place():
            return
        self._token = trio.lowlevel.current_trio_token()
        # A limit of its own: it would hold one of the threads that everybody in this process shares, for good.
        limiter = trio.CapacityLimiter(1)
        self._is_wanted = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(trio.to_thread.run_sync, self._work, limiter=limiter))
            try:
                await trio.sleep_forever()
            finally:
                self._is_wanted = self.is_open = False
                self._calls.put(None)

    async def run(self, function: Callable[[], None]) -> None:
        """Run a call in the thread; for one caller at a time, who cannot be cancelled while it runs."""
        await trio.lowlevel.checkpoint_if_cancelled()
        call = _Call(function)
        self._calls.put(call)
        await trio.lowlevel.wait_task_rescheduled(_wait_on)
        if call.failure is not None:
            raise call.failure

    def _work(self) -> None:
        assert self._token is not None
        # Not before: a service that is cancelled at once never starts its thread, and a call would wait for ever.
        self._token.run_sync_soon(self._open)
        while (call := self._calls.get()) is not None:
            try:
                call.function()
            except BaseException as exc:  # noqa: BLE001  it is raised where the call was made
                call.failure = exc
            self._token.run_sync_soon(trio.lowlevel.reschedule, call.task)

    def _open(self) -> None:
        self.is_open = self._is_wanted


def _wait_on(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
