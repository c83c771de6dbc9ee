"""Reports: calls a function of the user's with the statistics of a producer or consumer, at an interval.

One call at a time: an interval that ends while the function still runs is skipped. So a function that hangs delays
nothing else. Plays the part of the printing tasks of StatsItemSet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from rocketpy.logs import Seldom, get_logger
from rocketpy.services import is_from_outside, ticks

if TYPE_CHECKING:
    from rocketpy.config.observed import ObservedConfig

__all__ = ["CallReport", "Reports"]

logger = get_logger(__name__)

CallReport: TypeAlias = Callable[..., Awaitable[Any]]
"""Calls the function where users' code runs on this surface; raises what the function raises."""


class Reports:
    """The reports of one producer or consumer. For its trio thread only.

    Args:
        what: the name of the producer or consumer in the log.
        config: the settings, with the function and the interval.
        make: returns the statistics.
        call: calls the function.
    """

    def __init__(self, what: str, config: ObservedConfig, make: Callable[[], object], call: CallReport) -> None:
        self._what = what
        self._config = config
        self._make = make
        self._call = call
        self._ended = False
        self._idle = trio.Event()
        self._idle.set()
        self._seldom = Seldom(logger, clock=trio.current_time)

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Report at every interval, until cancelled."""
        async for _ in ticks(self._config.statistics_interval):
            if self._ended:
                return
            self._idle = trio.Event()
            try:
                await self._report()
            finally:
                self._idle.set()

    async def _report(self) -> None:
        try:
            await self._call(self._config.on_statistics, self._make())
        except BaseException as error:
            if is_from_outside(error):
                raise
            # An error of the user's function changes nothing else.
            self._seldom.error(type(error).__name__, "%s: on_statistics failed: %r", self._what, error, exc_info=error)

    async def close(self) -> None:
        """Start no more calls, and wait up to `close_timeout` for the running one."""
        self._ended = True
        with trio.move_on_after(self._config.close_timeout, shield=True):
            await self._idle.wait()
