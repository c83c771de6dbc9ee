"""One face for trio, asyncio and blocking code: a test is an async function that awaits whatever has to be awaited.

On the blocking surface nothing is ever awaited, so such a function runs to its end in one step.
"""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager

import attrs
import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from tests.aio.running import LIMIT, run

__all__ = ["SURFACES", "Surface", "call", "entered"]


def _run_trio(main, *, limit=LIMIT):
    async def bounded():
        with trio.fail_after(limit):
            return await main()

    return trio.run(bounded)


def _run_blocking(main, *, limit=None):
    """Nothing can cut blocking code short, whatever the limit."""
    coroutine = main()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise AssertionError("blocking code has nothing to await")


@attrs.frozen
class Surface:
    """How to run something on a surface."""

    name: str
    module: object
    run: object


SURFACES = {
    "trio": Surface("trio", rocketpy, _run_trio),
    "blocking": Surface("blocking", rocketpy.sync, _run_blocking),
    "asyncio": Surface("asyncio", rocketpy.aio, run),
}


@asynccontextmanager
async def entered(thing):
    """What is entered with `async with`, or `with`."""
    if hasattr(thing, "__aenter__"):
        async with thing:
            yield thing
    else:
        with thing:
            yield thing


async def call(answer):
    """What a method came to: `await call(producer.send(message))`."""
    return await answer if inspect.isawaitable(answer) else answer
