"""TransientCommit: moves messages from the buffers of the transient pool to the files of the log.

It sleeps until a message is in a buffer, and moves when there are enough pages or a moment has passed. Only then can
messages be read and flushed. A disk that refuses is asked again after every interval; meanwhile the buffers fill up.
Plays the part of CommitRealTimeService.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import get_logger
from rocketpy.services import run_blocking
from rocketpy_broker_sim.broker.flushing.services import PAGE

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.flushing.gate import Durability
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.message_store import MessageStore

__all__ = ["TransientCommit"]

_logger = get_logger(__name__)


class TransientCommit:
    """Empties the buffers of one store.

    Args:
        store: has the buffers.
        config: how often; may be changed at any time.
        gate: says what was taken, and is told when the files have more.
        make_readable: lets consumers read what came into the files.
    """

    def __init__(
        self, store: MessageStore, config: MessageStoreConfig, gate: Durability, make_readable: Callable[[], None]
    ) -> None:
        self._store = store
        self._config = config
        self._gate = gate
        self._make_readable = make_readable
        self._failed = False

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Move until cancelled."""
        while True:
            await self._gate.taken.reach(self._store.written_position + 1)
            await self._gather()
            await self._move()
            self._gate.written.note()
            self._make_readable()

    async def _gather(self) -> None:
        """Wait until there are enough pages, or it is time to move what there is."""
        config = self._config
        if not config.wake_commit_when_put_message or self._failed:
            await trio.sleep(config.commit_interval_commit_log / 1000)
        enough = (self._store.written_position // PAGE + config.commit_commit_log_least_pages) * PAGE
        with trio.move_on_after(config.commit_commit_log_thorough_interval / 1000):
            await self._gate.taken.reach(enough)

    async def _move(self) -> None:
        try:
            await run_blocking(self._store.move_buffers)
        except StoreError as exc:
            if not self._failed:
                _logger.error("%s", exc)
            self._failed = True
        else:
            self._failed = False
