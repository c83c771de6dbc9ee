"""Runs asyncio code inside plain tests: in debug mode, within a bound, with nothing left over."""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import gc
import inspect
import os
import threading

LIMIT = 40.0


def _give_up():
    faulthandler.dump_traceback()
    os._exit(2)


def run(main, *, limit=LIMIT):
    """Run an async function to its end; tasks that it leaves behind are a failure."""

    async def bounded():
        async with asyncio.timeout(limit):
            result = await main()
        # What ended with this very turn of the loop has a turn to be gone.
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    # Also for what does not even hear of its cancellation.
    watch = threading.Timer(limit + 20, _give_up)
    watch.daemon = True
    watch.start()
    try:
        return asyncio.run(bounded(), debug=True)
    finally:
        watch.cancel()
        gc.collect()  # what was not closed or not awaited complains here, in the test that did it


def in_asyncio(test):
    """Makes a plain test of an async function. pytest-trio would take the async one for its own."""

    @functools.wraps(test)
    def plain(*args, **kwargs):
        return run(lambda: test(*args, **kwargs))

    del plain.__wrapped__  # it would show that the test is async
    plain.__signature__ = inspect.signature(test)

    return plain
