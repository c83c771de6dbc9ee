"""ProducerSurface: what the blocking and the asyncio producer bring along for the trio producer behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import WeakMethod

import attrs

from rocketpy.client.user_loop import AsyncCaller, call_in_this_loop
from rocketpy.producer.statistics import ProducerStatistics

__all__ = ["ON_TRIO", "ProducerSurface"]


@attrs.frozen(kw_only=True)
class ProducerSurface:
    """What differs between the surfaces in a producer. The defaults are those of the trio surface.

    Attributes:
        async_caller: Calls async functions of the user's, such as checkers.
        statistics: The method `statistics` of the surface, which knows more sends. Weak, so that a producer that is
            forgotten can be reported.
    """

    async_caller: AsyncCaller = call_in_this_loop
    statistics: WeakMethod[Callable[[], ProducerStatistics]] | None = None


ON_TRIO: Final = ProducerSurface()
