"""OpService: writes the ends of transactions to the op topic, many together. Plays TransactionalOpBatchService.

Ends are collected up to the time and the size in the settings, and kept while the disk refuses them. If the broker is
killed meanwhile, it checks these transactions again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import StoreError
from rocketpy.logs import Seldom, get_logger

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.transactions.ledger import Ledger
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["OpService"]

log = get_logger(__name__)

AGAIN_AFTER = 1.0
"""Seconds until the next attempt if the store takes no messages."""


class OpService:
    """Writes the ends of one broker's transactions.

    Args:
        config: the settings.
        ledger: has the pending ends.
        commit: writes what was put; raises StoreError.
    """

    def __init__(self, config: BrokerConfig, ledger: Ledger, commit: Callable[[], None]) -> None:
        self._config = config
        self._ledger = ledger
        self._commit = commit
        self._first = trio.Event()
        self._enough = trio.Event()
        self._seldom = Seldom(log, clock=trio.current_time)
        ledger.subscribe(self._on_end)

    def _on_end(self) -> None:
        self._first.set()
        if self._ledger.pending.size >= self._config.transaction_op_msg_max_size:
            self._enough.set()

    @trio.lowlevel.enable_ki_protection
    async def serve(self) -> None:
        """Write ends as they come, until cancelled."""
        while True:
            await self._first.wait()
            with trio.move_on_after(self._config.transaction_op_batch_interval / 1000):
                await self._enough.wait()
            self._first, self._enough = trio.Event(), trio.Event()
            await self._write_on()

    async def _write_on(self) -> None:
        """Return when all pending ends are written."""
        while True:
            if self._try_all():
                return
            await trio.sleep(AGAIN_AFTER)

    def _try_all(self) -> bool:
        """Write all pending ends. Returns False if that must be tried again; logs errors."""
        try:
            return self.write_all()
        except StoreError as exc:
            self._seldom.error("refused", "the ends of transactions cannot be written, trying again: %s", exc)
            return False

    def write_all(self) -> bool:
        """Write all pending ends. Returns False if the store does not take them now.

        Raises:
            StoreError: the disk refused; the ends remain pending.
        """
        pending = self._ledger.pending
        while pending:
            if not self._ledger.write_pending():
                return False
            self._commit()
        return True
