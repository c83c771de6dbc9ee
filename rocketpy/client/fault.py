"""Which brokers to avoid for a while because they were slow or failed.

Off by default, as in Java: then only the broker that has just failed is avoided within one send. When it is on, a
broker is unavailable for the time in the latency table. After that, exactly one send goes there as a probe, and the
others follow when the probe has succeeded in time. A broker that could not be reached becomes available early when the
detector reaches it. The strategy never forbids a send: the choice of a queue falls back to an unavailable broker if
there is no other. Plain state, no I/O; the clock is a parameter. Thread-safe. Plays the part of
MQFaultStrategy and LatencyFaultToleranceImpl.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import attrs

from rocketpy.client.fault_statistics import BrokerFault, FaultStatistics
from rocketpy.client.retries import Failure, NotStoredOkError, failure_of
from rocketpy.config import LatencyTable
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectError,
    ConnectionLostError,
    ProtocolError,
    RocketMQError,
)
from rocketpy.logs import get_logger

__all__ = ["FaultItem", "MQFaultStrategy"]

logger = get_logger(__name__)

_NOT_AGAINST_A_BROKER = (ProtocolError, NotStoredOkError)
_NOT_REACHED = (ConnectError, ConnectionLostError, BrokerUnreachableError)


@attrs.define
class FaultItem:
    """The fault of one broker."""

    broker_name: str
    latency_ms: float
    """Latency of the send that was too slow or failed."""
    counted_ms: float
    """The latency that counts; for a send that failed, the `isolation_ms` of the table."""
    since: float
    """When that send ended, on the monotonic clock."""
    available_at: float
    """When the broker is available again."""
    reachable: bool = True
    """False if the last send did not reach the broker."""
    probe_until: float = 0.0
    """Until then a probe is in flight, and no other send goes to the broker."""


class MQFaultStrategy:
    """Remembers which brokers are unavailable, and until when.

    Args:
        clock: the monotonic clock in seconds.
        enabled: whether anything is remembered.
        table: for how long a broker is unavailable after which latency.
        probe_timeout: seconds after which a probe without an outcome counts as lost.
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
        self._isolations = self._probes = self._detected = 0
        self.lock = threading.RLock()
        """Held for changes, and for decisions that read the state several times."""

    # --- how sends went --------------------------------------------------------------------------------

    def update(self, broker_name: str, elapsed: float, *, isolation: bool = False, reachable: bool = True) -> None:
        """Note how long a send took.

        Args:
            broker_name: the broker.
            elapsed: the duration of the send, in seconds.
            isolation: whether the send failed because of the broker; its latency then counts as `isolation_ms`.
            reachable: whether the send reached the broker.
        """
        if not self.enabled:
            return
        latency_ms = self.table.isolation_ms if isolation else elapsed * 1000
        duration = self.table.not_available_for(latency_ms) / 1000
        if not duration and broker_name not in self._items:
            return  # nearly every send ends here, on any thread, so without the lock
        now = self._clock()
        is_new = is_gone = False
        with self.lock:
            item = self._items.get(broker_name)
            if duration > 0:
                is_new = item is None
                fresh = FaultItem(broker_name, elapsed * 1000, latency_ms, now, now + duration, reachable)
                self._isolate(item, fresh)
            elif item is not None and now - elapsed >= item.since:
                # Only a send that began after the fault counts: earlier ones were already in flight.
                is_gone = self._items.pop(broker_name, None) is not None
        if is_new:  # outside of the lock, because log handlers are users' code
            logger.warning("broker %s is avoided for %.1f s", broker_name, duration)
        if is_gone:
            logger.info("broker %s answers fast again", broker_name)

    def update_failed(self, broker_name: str, elapsed: float, error: RocketMQError, codes: Collection[int]) -> None:
        """Note a send that failed.

        Args:
            broker_name: the broker.
            elapsed: the duration of the send, in seconds.
            error: the error of the send.
            codes: the response codes after which another broker is tried.
        """
        if not self.enabled or isinstance(error, _NOT_AGAINST_A_BROKER):
            return
        speaks_against_it = failure_of(error, codes) is not Failure.FINAL
        if speaks_against_it or isinstance(error, BrokerError):  # a final refusal is an answer, whose latency counts
            reachable = not (isinstance(error, _NOT_REACHED) or error.nothing_sent)
            self.update(broker_name, elapsed, isolation=speaks_against_it, reachable=reachable)

    def update_oneway(self, broker_name: str) -> None:
        """Note a one-way message that was written.

        That shows that the broker can be reached, but not how fast it is.
        """
        if not self.enabled:
            return
        with self.lock:
            item = self._items.get(broker_name)
            if item is None or self._clock() < self._open_to_oneway(item):
                return
            del self._items[broker_name]
        logger.info("broker %s accepts messages again", broker_name)

    def _isolate(self, item: FaultItem | None, fresh: FaultItem) -> None:
        if item is None or fresh.since >= item.available_at:
            self._isolations += 1
        if item is not None:
            fresh.available_at = max(item.available_at, fresh.available_at)
        self._items[fresh.broker_name] = fresh

    # --- where the next one goes -------------------------------------------------------------------------

    def is_available(self, broker_name: str, *, oneway: bool = False) -> bool:
        """Whether a send may go to the broker: it is not unavailable, and no probe is in flight.

        A one-way send cannot be a probe, because it has no answer. It waits for a probe, but not for ever.
        """
        item = self._items.get(broker_name)
        if item is None:
            return True
        now = self._clock()
        return now >= (self._open_to_oneway(item) if oneway else item.available_at) and now >= item.probe_until

    def _open_to_oneway(self, item: FaultItem) -> float:
        """When a one-way send may go to a recovering broker that no other send has probed."""
        return item.available_at + self._probe_timeout

    def is_held_against(self, broker_name: str) -> bool:
        """Whether the broker has a fault: it is unavailable, or waits for its probe."""
        return broker_name in self._items

    def pick_at_least_one(self, broker_names: Collection[str]) -> set[str]:
        """The brokers to send to if none is available: the faster half of those that can be reached.

        Args:
            broker_names: the brokers to choose from.

        Returns:
            Some of these brokers; none if none can be reached.
        """
        found = [self._items.get(name) for name in broker_names]
        items = sorted((item.counted_ms, item.broker_name) for item in found if item is not None and item.reachable)
        if not items:
            return set()
        most = items[max(0, len(items) // 2 - 1)][0]
        return {name for counted, name in items if counted <= most}

    def chosen(self, broker_name: str, *, oneway: bool = False) -> None:
        """Note that a send goes to the broker now; the first one after it was unavailable is the probe."""
        with self.lock:
            item = self._items.get(broker_name)
            if item is not None and self.is_available(broker_name, oneway=oneway):
                item.probe_until = self._clock() + self._probe_timeout
                self._probes += 1

    # --- brokers that could not be reached ----------------------------------------------------------------

    def unreachable(self) -> list[str]:
        """The brokers that are unavailable because they could not be reached."""
        now = self._clock()
        with self.lock:
            return [item.broker_name for item in self._items.values() if not item.reachable and now < item.available_at]

    def detected(self, broker_name: str) -> None:
        """Note that a broker can be reached again: it is available, and the next send there is the probe."""
        with self.lock:
            item = self._items.get(broker_name)
            if item is None or item.reachable:
                return
            item.reachable = True
            item.available_at = min(item.available_at, self._clock())
            self._detected += 1
        logger.info("broker %s can be reached again", broker_name)

    # --- the table ---------------------------------------------------------------------------------------

    def retain(self, broker_names: Collection[str]) -> None:
        """Forget brokers that no route names any more."""
        with self.lock:
            for name in [name for name in self._items if name not in broker_names]:
                del self._items[name]

    def items(self) -> list[FaultItem]:
        """Copies of the current faults."""
        with self.lock:
            return [attrs.evolve(item) for item in self._items.values()]

    def statistics(self) -> FaultStatistics:
        """The current faults and the counters, for users."""
        now = self._clock()  # without the lock, because another thread may have held it at a fork
        brokers = {
            item.broker_name: BrokerFault(
                broker_name=item.broker_name,
                latency=item.latency_ms / 1000,
                available_in=max(0.0, item.available_at - now),
                reachable=item.reachable,
                probing=now < item.probe_until,
            )
            for item in [*self._items.values()]
        }
        return FaultStatistics(
            enabled=self.enabled,
            brokers=brokers,
            isolations=self._isolations,
            probes=self._probes,
            detected=self._detected,
        )
