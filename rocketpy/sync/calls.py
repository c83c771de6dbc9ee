"""Calling async functions of blocking code, which has no loop: each call gets a trio loop and a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio

from rocketpy.forked import ChildEnds

__all__ = ["call_in_own_loop"]


async def call_in_own_loop(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function in a trio loop and thread of its own, and return its result. Cancelling this cancels it.

    Raises:
        BaseException: whatever the function raises.
    """
    scope = trio.CancelScope()
    loops: list[trio.lowlevel.TrioToken] = []
    ended = given_up = False

    async def main() -> Any:
        loops.append(trio.lowlevel.current_trio_token())
        if given_up:  # before this thread came so far
            scope.cancel()
        with scope, ChildEnds(everywhere=True):
            await trio.lowlevel.checkpoint_if_cancelled()
            return await function(*arguments)

    # The threads of trio's usual limiter are for all: that is where the names of hosts are looked up.
    limiter = trio.CapacityLimiter(1)
    try:
        answer = await trio.to_thread.run_sync(trio.run, main, abandon_on_cancel=True, limiter=limiter)
        ended = True
        return answer
    finally:
        if not ended:
            given_up = True
            for loop in loops:
                with suppress(trio.RunFinishedError):
                    loop.run_sync_soon(scope.cancel)
