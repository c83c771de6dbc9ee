"""IndexCatchUpService: lets the key index catch up with the log, a little at a time, beside the broker's work.

It has something to do after a start with a long log, and after a disk refused the index, which is then tried again
every few seconds. Plays a part of ReputMessageService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.services import run_blocking, ticks

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.index.catch_up import IndexCatchUp
    from rocketpy_broker_sim.store.index.key_index import KeyIndex

__all__ = ["IndexCatchUpService"]

STEP = 100
"""Records at a time: about a millisecond of work."""
PAUSE = 0.001
"""Seconds between two steps, in which the broker does everything else."""
TRY_AGAIN_EVERY = 5.0
"""Seconds between two looks at an index that the disk refused."""
_logger = get_logger(__name__)


class IndexCatchUpService:
    """Catches up for one store.

    Args:
        index: what lags behind.
        catch_up: brings it on, and goes on with it when the disk refused it.
    """

    def __init__(self, index: KeyIndex, catch_up: IndexCatchUp) -> None:
        self._index = index
        self._catch_up = catch_up

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Catch up whenever the index is behind, until cancelled."""
        await self._take_steps()
        async for _ in ticks(TRY_AGAIN_EVERY):
            if self._index.failed:
                await self._try_again()
                await self._take_steps()

    async def _take_steps(self) -> None:
        """Take steps until none is left."""
        if not self._index.is_behind or self._index.failed:
            return
        async for _ in ticks(PAUSE):
            if not self._catch_up.step(STEP):
                break
        if not self._index.failed:
            _logger.info("the index has caught up with the log")

    async def _try_again(self) -> None:
        try:
            await run_blocking(self._catch_up.write_again)
            self._catch_up.try_again()
        except StoreError as exc:
            _logger.debug("%s", exc)  # a warning was logged when it was given up
