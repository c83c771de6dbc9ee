"""WriteConditions: what is asked before every put: may this broker take messages now, and does the disk keep up?

The store itself asks whether it runs, whether a flag forbids it and whether a message may be stored at all. Here stands
what belongs to the broker: its role, appends that took too long, and the buffers of the transient pool. An append
blocks the loop, so nobody can see it hang; what came in meanwhile is seen right after it, and is turned away then.
Plays the part of HookUtils.checkBeforePutMessage and of SendMessageProcessor.rejectRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.logs import get_logger
from rocketpy_broker_sim.config import BrokerRole
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.log.transient_pool import TransientPool

__all__ = ["WriteConditions"]

STAYS_BUSY = 0.1
"""Seconds of refusals after an append that took too long: in them the loop sees what came in meanwhile."""
_logger = get_logger(__name__)


class WriteConditions:
    """Of one broker.

    Args:
        config: its role, and how long an append may take; may be changed at any time.
        clock: the loop's clock, in seconds.
        pool: the buffers that messages go to first, where there are some.
    """

    def __init__(
        self, config: MessageStoreConfig, clock: Callable[[], float], pool: TransientPool | None = None
    ) -> None:
        self._config = config
        self._clock = clock
        self._pool = pool
        self._busy_until = 0.0
        self._held = 0.0

    def refusal(self) -> PutMessageStatus | None:
        """Why nothing may be put now; None when it may."""
        if self._config.broker_role is BrokerRole.SLAVE:
            return PutMessageStatus.SERVICE_NOT_AVAILABLE
        if self._pool is not None and not self._pool.available:
            return PutMessageStatus.OS_PAGE_CACHE_BUSY
        if self._busy_until and self.is_page_cache_busy():
            return PutMessageStatus.OS_PAGE_CACHE_BUSY
        return None

    def note_append(self, began: float, ended: float) -> None:
        """An append was done between these times of the clock."""
        seconds = ended - began
        if seconds * 1000 > self._config.os_page_cache_busy_time_out_mills:
            self._held = seconds
            self._busy_until = ended + STAYS_BUSY
            _logger.warning("an append took %.1f s: the page cache is busy, messages are refused for a moment", seconds)

    def is_page_cache_busy(self) -> bool:
        """Whether an append took too long just now."""
        if self._busy_until and self._clock() >= self._busy_until:
            self._busy_until = self._held = 0.0
        return self._busy_until > 0

    @property
    def held_ms(self) -> int:
        """Milliseconds of the append that took too long just now; 0 in good times."""
        return int(self._held * 1000) if self.is_page_cache_busy() else 0
