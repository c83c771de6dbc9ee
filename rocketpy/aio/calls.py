"""LoopCaller: calls async functions of the user's in their event loop, on behalf of the portal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.errors import ClientClosedError

if TYPE_CHECKING:
    from rocketpy.aio.bridge import Bridge

__all__ = ["LoopCaller"]


class LoopCaller:
    """Calls async functions in the loop of a bridge, each in a task of its own. Called in the portal.

    Args:
        bridge: leads to the loop.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def __call__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a function in a copy of the context in which the object was entered. Cancelling this cancels its task.

        Raises:
            ClientClosedError: the loop is closed.
            BaseException: whatever the function raises.
        """
        call = _Call(self._bridge, function, arguments)
        if not self._bridge.inbox.deliver(call.begin):
            raise ClientClosedError(f"the event loop of {self._bridge.what} is closed")
        try:
            await call.ended.wait()
        finally:
            if not call.ended.is_set():
                self._bridge.inbox.deliver(call.cancel)
        if call.error is not None:
            raise call.error
        return call.value


class _Call:
    """One call. The loop writes `value` and `error` before it has `ended` set in the portal."""

    def __init__(self, bridge: Bridge, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.ended = trio.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self._bridge = bridge
        self._function = function
        self._arguments = arguments
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Start the task. In the loop."""
        coroutine = self._run()
        try:
            self._task = self._bridge.context.copy().run(self._bridge.loop.create_task, coroutine)
        except BaseException as error:  # noqa: BLE001 - a task factory may raise anything; the caller gets it
            coroutine.close()
            self._end(error)
            return
        self._task.add_done_callback(self._look_at_end)

    def cancel(self) -> None:
        """Cancel the task. In the loop."""
        if self._task is not None:
            self._task.cancel()

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        """One that other code cancels before its first step does not run at all."""
        if not self._has_begun:
            self._end(asyncio.CancelledError())

    async def _run(self) -> None:
        self._has_begun = True
        try:
            self.value = await self._function(*self._arguments)
        except (KeyboardInterrupt, GeneratorExit) as error:
            self._end(error)
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the function raises, the caller gets
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        # Exceptions such as asyncio's CancelledError have no meaning in the portal: wrap them.
        foreign = error is not None and not isinstance(error, Exception)
        self.error = RuntimeError(f"it ended with {type(error).__name__}") if foreign else error
        if foreign:
            self.error.__cause__ = error  # type: ignore[union-attr]
        try:
            self._bridge.portal.post(self.ended.set)
        except ClientClosedError:
            return  # the portal has ended, and with it the caller
