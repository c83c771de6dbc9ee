"""Makes changes of the key-value table where they are kept in a file: the loop never waits for the disk.

Changes that come together are written together, and each is answered when it is on the disk or could not be written.
Plays the part of persist() in KVConfigManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import RocketMQError, StoreError
from rocketpy.services import run_blocking
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy_broker_sim.namesrv.kv_config import KVChange, KVConfig, KVDraft

__all__ = ["MAX_WAITING", "KVWriter"]

MAX_WAITING = 4 * 1024 * 1024
"""Characters of changes that may wait for the disk."""
_CHANGES_A_STEP = 64
"""Changes that are made or answered in a turn of the loop: each connection may have one, and there are thousands."""

Done = Callable[[RocketMQError | None], None]


class KVWriter:
    """Keeps a table and its file alike. `serve` is the task that writes.

    Args:
        table: what is kept.
    """

    def __init__(self, table: KVConfig) -> None:
        self._table = table
        self._waiting: list[tuple[KVChange, Done]] = []
        self._size = 0
        self._woken = trio.Event()

    def change(self, change: KVChange, done: Done) -> bool:
        """Make a change, and call `done` with what went wrong. False when too much waits already."""
        if self._waiting and self._size + change.size > MAX_WAITING:
            return False
        self._waiting.append((change, done))
        self._size += change.size
        self._woken.set()
        return True

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Write changes as they come, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            await self._write()

    async def _write(self) -> None:
        taken, self._waiting, self._size = self._waiting, [], 0
        draft = self._table.draft()
        good: list[Done] = []
        for count, (change, done) in enumerate(taken, 1):
            try:
                draft.apply(change)
            except RocketMQError as exc:
                done(exc)
            else:
                good.append(done)
            if count % _CHANGES_A_STEP == 0:
                await trio.lowlevel.checkpoint()
        failure = await self._keep(draft) if draft.is_changed or self._table.is_in_doubt else None
        for count, done in enumerate(good, 1):
            done(failure)
            if count % _CHANGES_A_STEP == 0:
                await trio.lowlevel.checkpoint()

    async def _keep(self, draft: KVDraft) -> StoreError | None:
        pieces = await in_slices(self._table.encode_steps(draft))
        try:
            await run_blocking(self._table.save, pieces)
        except StoreError as exc:
            return exc
        self._table.take_over(draft)
        return None
