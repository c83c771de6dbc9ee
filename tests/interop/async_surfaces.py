"""Our clients on trio and on asyncio, used by plain functions: their loop runs in a thread beside the test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anyio.from_thread import start_blocking_portal

import rocketpy
import rocketpy.aio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anyio.from_thread import BlockingPortal

__all__ = ["ASYNC_SURFACES", "entered", "loop_of"]

ASYNC_SURFACES = ("trio", "asyncio")
_MODULES = {"trio": rocketpy, "asyncio": rocketpy.aio}


@contextmanager
def loop_of(surface: str) -> Iterator[BlockingPortal]:
    """The loop of a surface: `call` runs an async function in it and waits, `start_task_soon` returns a future."""
    with start_blocking_portal(surface) as portal:
        yield portal


@contextmanager
def entered(portal: BlockingPortal, surface: str, make: Callable[[Any], Any]) -> Iterator[Any]:
    """Enter a client in this loop: what `make` returns, given the module of the surface."""

    async def made() -> Any:
        return make(_MODULES[surface])

    client = portal.call(made)
    with portal.wrap_async_context_manager(client):
        yield client
