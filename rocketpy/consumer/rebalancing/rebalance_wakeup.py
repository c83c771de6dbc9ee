"""RebalanceWakeup: asks for a rebalance soon. Plays the part of wakeup in RebalanceService."""

from __future__ import annotations

import trio

__all__ = ["RebalanceWakeup"]


class RebalanceWakeup:
    """What rebalances one consumer waits for this, and what can tell that a rebalance is due sets it."""

    def __init__(self) -> None:
        self._wanted = trio.Event()

    def soon(self) -> None:
        """Rebalance at once, or after a pause if there were many recently. Several calls lead to one rebalance."""
        self._wanted.set()

    def begin(self) -> None:
        """A rebalance begins: a call of `soon` from here on leads to another one."""
        self._wanted = trio.Event()

    async def wait(self) -> None:
        """Wait until a rebalance is wanted."""
        await self._wanted.wait()
