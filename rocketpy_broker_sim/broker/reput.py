"""ReputService: brings messages into their queues that the turn which wrote them could not bring there.

A disk that refuses is asked again every second, for as long as it takes; when it has refused for half a minute no more
messages are taken meanwhile. When there is much to catch up with, the loop sees to its connections between two chunks.
It sleeps while there is nothing of either.
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
"""Seconds between two attempts on a disk that refuses."""
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
        self._is_given_up = False

    def _tell(self) -> None:
        """Say once that no more messages are taken, and once that they are again."""
        is_given_up = self._store.flags.has(RunningFlag.QUEUE_ERROR)
        if is_given_up and not self._is_given_up:
            _logger.error("messages are refused until the stored ones can be added to their queues")
        elif self._is_given_up and not is_given_up:
            _logger.warning("messages can be added to their queues, and are accepted again")
        self._is_given_up = is_given_up

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Catch up whenever the turn says that there is something to catch up with, until cancelled."""
        while True:
            await self._turn.wait_behind()
            if self._turn.is_stalled:
                self._tell()
                await trio.sleep(RETRY_AFTER)
                self._turn.reput()
                self._tell()
            else:
                await trio.lowlevel.checkpoint()
            self._turn.make_readable()
