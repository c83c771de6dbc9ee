"""Where async functions of the user's run. Each surface has its own way to reach the user's loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

__all__ = ["AsyncCaller", "call_in_this_loop"]

AsyncCaller: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...]], Awaitable[Any]]
"""Calls an async function of the user's in its event loop, and waits for it. Cancelling it cancels the function."""


@trio.lowlevel.disable_ki_protection
async def call_in_this_loop(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call the function here: the user's loop is this one."""
    return await function(*arguments)
