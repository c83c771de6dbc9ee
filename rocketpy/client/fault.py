"""Which brokers to pass over for a while because they were slow or failed.

Off by default, as in Java: then only the broker that has just failed is avoided within one send. Switched on, a broker
rests for the time that the latency table gives; when that is over, exactly one send goes there as a probe, and the
others follow once it went well. It never forbids: whoever chooses a queue falls back to a resting broker when there is
no other. Plain state, no I/O; the clock is given. Safe from any thread. Plays the part of MQFaultStrategy and
LatencyFaultToleranceImpl.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import attrs

from rocketpy.config import LatencyTable
from rocketpy.logs import get_logger

__all__ = ["FaultItem", "MQFaultStrategy"]

logger = get_logger(__name__)


@attrs.define
class FaultItem:
    """What is held against one broker."""

    broker_name: str
    latency_ms: float
    """Of the send that brought it here."""
    since: float
    """When that was, on the monotonic clock."""
    available_at: float
    """When it may be tried again."""
    reachable: bool = True
    """False when the last send did not even reach it."""
    probe_until: float = 0.0
    """While this is in the future, a probe is out and nobody else goes there."""


class MQFaultStrategy:
    """Remembers which brokers rest, and until when.

    Args:
        clock: the monotonic clock in seconds.
        enabled: without it nothing is remembered.
        table: how long which latency costs.
        probe_timeout: seconds after which a probe that nobody reported counts as lost.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        enabled: bool = False,
        table: LatencyTable = LatencyTable.RELEASE_4,
        probe_timeout: float = 3.0,
    ) -> None:
        self.enabled = enabled
        self.table = table
        self._clock = clock
        self._probe_timeout = probe_timeout
        self._items: dict[str, FaultItem] = {}
        self.lock = threading.RLock()
        """Taken around changes, and around decisions that take several looks."""

    def update(self, broker_name: str, elapsed: float, *, isolation: bool = False, reachable: bool = True) -> None:
        """Take note of how a send went.

        Args:
            broker_name: where it went.
            elapsed: seconds it took.
            isolation: it failed in a way that speaks against the broker; its time counts as the table's isolation.
            reachable: the broker was reached at all.
        """
        if not self.enabled:
            return
        latency_ms = self.table.isolation_ms if isolation else elapsed * 1000
        duration = self.table.not_available_for(latency_ms) / 1000
        now = self._clock()
        is_new = is_gone = False
        with self.lock:
            item = self._items.get(broker_name)
            if duration > 0:
                is_new = item is None
                self._isolate(broker_name, item, latency_ms, now, now + duration, reachable)
            elif item is not None and now - elapsed >= item.since:
                # Only a send that began after the fault proves anything: others were already under way.
                is_gone = self._items.pop(broker_name, None) is not None
        if is_new:  # handlers of logs are users' code: none of it under the lock
            logger.warning("broker %s is passed over for %.1f s", broker_name, duration)
        if is_gone:
            logger.info("broker %s answers well again", broker_name)

    def _isolate(
        self, broker_name: str, item: FaultItem | None, latency_ms: float, now: float, until: float, reachable: bool
    ) -> None:
        if item is None:
            self._items[broker_name] = FaultItem(broker_name, latency_ms, now, until, reachable)
            return
        item.latency_ms, item.since, item.reachable = latency_ms, now, reachable
        item.available_at = max(item.available_at, until)
        item.probe_until = 0.0

    def is_available(self, broker_name: str) -> bool:
        """Whether to send there: it does not rest, and no probe is out."""
        item = self._items.get(broker_name)
        if item is None:
            return True
        now = self._clock()
        return now >= item.available_at and now >= item.probe_until

    def is_reachable(self, broker_name: str) -> bool:
        """Whether the last send reached it. Decides between brokers that all rest."""
        item = self._items.get(broker_name)
        return item is None or item.reachable

    def chosen(self, broker_name: str) -> None:
        """Take note that a send goes there now: the first one after a rest is the probe."""
        with self.lock:
            item = self._items.get(broker_name)
            if item is not None:
                now = self._clock()
                if now >= item.available_at:
                    item.probe_until = now + self._probe_timeout

    def retain(self, broker_names: Collection[str]) -> None:
        """Forget brokers that no route names any more."""
        with self.lock:
            for name in [name for name in self._items if name not in broker_names]:
                del self._items[name]

    def items(self) -> list[FaultItem]:
        """What is held against brokers now; copies."""
        with self.lock:
            return [attrs.evolve(item) for item in self._items.values()]
