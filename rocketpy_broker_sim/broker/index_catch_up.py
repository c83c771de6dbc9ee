"""IndexCatchUpService: lets the key index catch up with a long log, a little at a time, beside the broker's work.

It ends when there is nothing left to do, which mostly is at once. Plays a part of ReputMessageService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.logs import get_logger
from rocketpy.services import ticks

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["IndexCatchUpService"]

STEP = 100
"""Records at a time: about a millisecond of work."""
PAUSE = 0.001
"""Seconds between two steps, in which the broker does everything else."""
_logger = get_logger(__name__)


class IndexCatchUpService:
    """Catches up for one store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    async def serve(self) -> None:
        """Take steps until none is left."""
        if not self._store.index.is_behind:
            return
        async for _ in ticks(PAUSE):
            if not self._store.catch_up_index(STEP):
                break
        if not self._store.index.failed:
            _logger.info("the index has caught up with the log")
