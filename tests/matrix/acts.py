"""One public call that is made from some place, and its outcome.

The place has an `Act`, and calls `plain` in a plain function or awaits `awaited` in an async one. Neither ever raises,
because these cells do not test errors of users' code.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
import time

import trio

from rocketpy import ClientClosedError, ConfigError, TooManyRequestsError
from rocketpy.portal import portal

__all__ = ["Act", "verdict"]

PATIENCE = 8.0
"""Seconds within which a call must end."""
AT_ONCE = 1.8
"""Seconds for a refusal; one that has waited for something in vain comes after two seconds at the earliest."""
REFUSALS = (ConfigError, ClientClosedError, TooManyRequestsError)
REMEDY = re.compile(
    r"[:;,(] [^:]*\b(use|make|call|start|hand|take|give|run|do|let|send|enter|wait|await|leave|come|share)\b", re.DOTALL
)


class Act:
    """Makes a call the first time it is asked to, and then does nothing.

    Args:
        world: where it is made; see `tests.matrix.worlds`.
        make: given the world, makes the call.
    """

    def __init__(self, world, make):
        self._world = world
        self._make = make
        self._began = 0.0
        self._asked = threading.Event()
        self._ended = threading.Event()
        self.error = None
        self.value = None
        self.seconds = 0.0
        self.thread = None

    @property
    def is_over(self):
        return self._ended.is_set()

    @property
    def was_asked(self):
        return self._asked.is_set()

    def wait_asked(self, seconds):
        """From a thread: wait so long for the place to come to it; whether it has."""
        return self._asked.wait(seconds)

    def _begin(self):
        if self._asked.is_set():
            return False
        self._asked.set()
        self.thread = threading.get_ident()
        self._began = time.monotonic()
        return True

    def _end(self, value=None, error=None):
        self.seconds = time.monotonic() - self._began
        self.value, self.error = value, error
        self._ended.set()

    def plain(self, *_):
        """Make it from a plain function. What has to be awaited is awaited in the loop that runs here, or in one made
        here, as somebody does who knows no better.
        """
        if not self._begin():
            return
        try:
            value = self._make(self._world)
        except BaseException as error:  # noqa: BLE001 - kept for the verdict
            self._end(error=error)
            return
        if not inspect.isawaitable(value):
            self._end(value)
        elif self._world.is_here():
            self._world.spawn(self._finish(value))
        else:
            self._in_a_loop_of_its_own(value)

    def _in_a_loop_of_its_own(self, value):
        finishing = self._finish(value)
        if self._world.name == "asyncio":
            asyncio.run(finishing)
        elif threading.current_thread().name == "rocketpy-portal":
            portal().start_soon(lambda: finishing)
        else:
            trio.run(lambda: finishing)

    async def awaited(self, *_):
        """Make it from an async function."""
        if not self._begin():
            return
        try:
            value = self._make(self._world)
        except BaseException as error:  # noqa: BLE001
            self._end(error=error)
            return
        if inspect.isawaitable(value):
            await self._finish(value)
        else:
            self._end(value)

    async def _finish(self, value):
        try:
            self._end(await value)
        except Exception as error:  # noqa: BLE001
            self._end(error=error)
        except BaseException as error:
            self._end(error=error)
            raise

    def wait(self, seconds=PATIENCE):
        """From a thread: wait so long for the end of it."""
        self._ended.wait(seconds)

    async def wait_async(self, sleep):
        """From a loop: the same."""
        until = time.monotonic() + PATIENCE
        while not self._ended.is_set() and time.monotonic() < until:
            await sleep(0.003)


def _causes(error):
    while error is not None:
        yield error
        error = error.__cause__


def verdict(act, *, allowed=(), may_refuse=True, must_refuse=False):
    """What is wrong with what came of a call; "" when it worked, or was refused at once with a remedy.

    Args:
        act: the call.
        allowed: errors that are an answer to it.
        may_refuse: whether an error that names a remedy will do.
        must_refuse: whether nothing else will.
    """
    if not act.was_asked:
        return "the place never came to the call"
    if not act.is_over:
        return f"no end within {PATIENCE:g} s"
    if act.error is None and must_refuse:
        return "it was not refused"
    if act.error is None:
        return "" if act.seconds < PATIENCE / 2 else f"it worked, after {act.seconds:.1f} s"
    if isinstance(act.error, allowed):
        return ""
    refusals = [each for each in _causes(act.error) if isinstance(each, REFUSALS)]
    said = f"{type(act.error).__name__}: {act.error}"
    if not refusals:
        return f"neither worked nor was refused with a remedy, but raised {said}"
    if not may_refuse and not must_refuse:
        return f"refused where it has to work: {said}"
    if act.seconds > AT_ONCE:
        return f"refused only after {act.seconds:.1f} s: {said}"
    return "" if any(REMEDY.search(str(each)) for each in refusals) else f"the error names no remedy: {said}"
