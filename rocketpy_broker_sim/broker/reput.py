"""ReputService: brings messages into their queues that the turn which wrote them could not bring there.

A disk that refuses is asked again every second, until the store gives up; when there is much to catch up with, the
loop sees to its connections between two chunks. It sleeps while there is nothing of either.
Plays the part of ReputMessageService.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.running_flags import RunningFlag

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.turn import Turn
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["ReputService"]

RETRY_AFTER = 1.0
"""Seconds between two tries on a disk that refuses."""
_logger = get_logger(__name__)


class ReputService:
    """Catches up with the log of one store.

    Args:
        store: what is dispatched.
        turn: runs the steps, and tells consumers of what they bring.
    """

    def __init__(self, store: MessageStore, turn: Turn) -> None:
        self._store = store
        self._turn = turn

    async def serve(self) -> None:
        """Catch up whenever the turn says that there is something to catch up with, until cancelled."""
        while True:
            await self._turn.wait_behind()
            if self._turn.is_stalled:
                if self._store.flags.has(RunningFlag.QUEUE_ERROR):
                    _logger.error("no more messages are taken or brought into their queues until the broker restarts")
                    continue
                await trio.sleep(RETRY_AFTER)
                self._turn.reput()
            else:
                await trio.lowlevel.checkpoint()
            self._turn.make_readable()
