"""ConsumerSurface: what the blocking and the asyncio consumers bring along for the trio consumers behind them."""

from __future__ import annotations

from typing import Final

import attrs

from rocketpy.client.user_loop import AsyncCaller, call_in_this_loop
from rocketpy.consumer.calling.runners import RunnerMaker, TaskRunner

__all__ = ["ON_TRIO", "ConsumerSurface"]


@attrs.frozen(kw_only=True)
class ConsumerSurface:
    """What differs between the surfaces in a consumer. The defaults are those of the trio surface.

    Attributes:
        async_runner: Makes the runner of async listeners, which only push consumers have.
        async_caller: Calls the user's other async functions.
    """

    async_runner: RunnerMaker = TaskRunner
    async_caller: AsyncCaller = call_in_this_loop


ON_TRIO: Final = ConsumerSurface()
