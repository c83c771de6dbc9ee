"""UserCalls: calls functions of the user's other than listeners: offset stores, and hooks such as `on_revoked`.

A plain function is called in a thread, as it may block; an async one in the user's loop, which each surface reaches in
its own way. Under a mock clock, which would jump ahead while threads work, plain functions are called in place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import trio

import rocketpy.consumer.forked  # noqa: F401  it ends children of listeners
from rocketpy.client.user_loop import AsyncCaller, call_in_this_loop
from rocketpy.consumer.inside import inside, is_inside, is_writing
from rocketpy.consumer.listeners import is_async_listener
from rocketpy.forked import ChildEnds
from rocketpy.services import runs_blocking_in_place

__all__ = ["UserCalls"]

_THREADS = 4
"""How many plain functions of one consumer run at the same time. One that hangs counts until it returns."""


class UserCalls:
    """Calls functions for one consumer, in the trio thread.

    Like a listener, such a function must not wait for the consumer to close, because closing waits for the function.

    Args:
        in_loop: calls async functions.
        owner: the object that identifies the consumer for `inside`; this itself if there are no listeners.
    """

    def __init__(self, in_loop: AsyncCaller = call_in_this_loop, owner: object | None = None) -> None:
        self._owner = self if owner is None else owner
        self._in_loop = in_loop
        self._threads = trio.CapacityLimiter(_THREADS)

    @property
    def is_inside(self) -> bool:
        """Whether the caller is a function called by this."""
        return is_inside(self._owner)

    @property
    def is_writing(self) -> bool:
        """Whether the caller is a function that was called with `writes`."""
        return is_writing(self._owner)

    async def call(self, function: Callable[..., Any], *arguments: Any, writes: bool = False) -> Any:
        """Call a function and return its result. If this is cancelled, a thread is abandoned, as nothing can stop it.

        Args:
            function: the function.
            arguments: its arguments.
            writes: whether commits wait for it, as for `write` of an offset store.

        Raises:
            TypeError: it is a plain function that returned something to await.
            BaseException: whatever the function raises.
        """
        if is_async_listener(function):

            async def awaited(*arguments: Any) -> Any:
                with inside(self._owner, writes=writes):
                    return await function(*arguments)

            return await self._in_loop(awaited, arguments)

        def called(*arguments: Any) -> Any:
            with ChildEnds(everywhere=True), inside(self._owner, writes=writes):
                return function(*arguments)

        if runs_blocking_in_place():
            await trio.lowlevel.checkpoint()
            answer = called(*arguments)
        else:
            answer = await trio.to_thread.run_sync(called, *arguments, abandon_on_cancel=True, limiter=self._threads)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(f"{function!r:.100} returns an awaitable: make it an `async def` function itself")
        return answer
