"""Which brokers to pass over for a while because they were slow or failed.

Off by default, as in Java: then only the broker that has just failed is avoided within one send. Switched on, a broker
rests for the time that the latency table gives; when that is over, exactly one send goes there as a probe, and the
others follow once it went well. The rest of a broker that could not be reached ends early when the detector reaches
it. It never forbids: the choice of a queue falls back to a resting broker when there is no other. Plain state, no I/O;
the clock is given. Safe from any thread. Plays the part of MQFaultStrategy and LatencyFaultToleranceImpl.
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
    """What is held against one broker."""

    broker_name: str
    latency_ms: float
    """Of the send that brought it here."""
    counted_ms: float
    """What that latency counts as: if the send failed, the table's isolation."""
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
        self._isolations = self._probes = self._detected = 0
        self.lock = threading.RLock()
        """Taken around changes, and around decisions that take several looks."""

    # --- how sends went --------------------------------------------------------------------------------

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
        if not duration and broker_name not in self._items:
            return  # nearly every send comes here, from any thread: without the lock
        now = self._clock()
        is_new = is_gone = False
        with self.lock:
            item = self._items.get(broker_name)
            if duration > 0:
                is_new = item is None
                fresh = FaultItem(broker_name, elapsed * 1000, latency_ms, now, now + duration, reachable)
                self._isolate(item, fresh)
            elif item is not None and now - elapsed >= item.since:
                # Only a send that began after the fault proves anything: others were already under way.
                is_gone = self._items.pop(broker_name, None) is not None
        if is_new:  # handlers of logs are users' code: none of it under the lock
            logger.warning("broker %s is passed over for %.1f s", broker_name, duration)
        if is_gone:
            logger.info("broker %s answers well again", broker_name)

    def update_failed(self, broker_name: str, elapsed: float, error: RocketMQError, codes: Collection[int]) -> None:
        """Take note of a send that failed.

        Args:
            broker_name: where it went.
            elapsed: seconds it took.
            error: what it came to.
            codes: answers of a broker after which another one is tried.
        """
        if not self.enabled or isinstance(error, _NOT_AGAINST_A_BROKER):
            return
        speaks_against_it = failure_of(error, codes) is not Failure.FINAL
        if speaks_against_it or isinstance(error, BrokerError):  # a message that is refused for good was answered
            reachable = not isinstance(error, _NOT_REACHED)
            self.update(broker_name, elapsed, isolation=speaks_against_it, reachable=reachable)

    def update_oneway(self, broker_name: str) -> None:
        """Take note of a message that was written and of which nothing more will be heard.

        That shows that the broker can be reached, and not how fast it is.
        """
        if not self.enabled:
            return
        with self.lock:
            item = self._items.get(broker_name)
            if item is None or self._clock() < self._open_to_oneway(item):
                return
            del self._items[broker_name]
        logger.info("broker %s takes messages again", broker_name)

    def _isolate(self, item: FaultItem | None, fresh: FaultItem) -> None:
        if item is None or fresh.since >= item.available_at:
            self._isolations += 1
        if item is not None:
            fresh.available_at = max(item.available_at, fresh.available_at)
        self._items[fresh.broker_name] = fresh

    # --- where the next one goes -------------------------------------------------------------------------

    def is_available(self, broker_name: str, *, oneway: bool = False) -> bool:
        """Whether to send there: it does not rest, and no probe is out.

        A oneway send is no probe, since nobody hears how it goes: it waits for one, but not for ever.
        """
        item = self._items.get(broker_name)
        if item is None:
            return True
        now = self._clock()
        return now >= (self._open_to_oneway(item) if oneway else item.available_at) and now >= item.probe_until

    def _open_to_oneway(self, item: FaultItem) -> float:
        """When a oneway send goes to a recovering broker: no other kind of send has probed it until then."""
        return item.available_at + self._probe_timeout

    def is_held_against(self, broker_name: str) -> bool:
        """Whether there is anything against it: if not, a send there is like any other."""
        return broker_name in self._items

    def pick_at_least_one(self, broker_names: Collection[str]) -> set[str]:
        """Which brokers to send to although none is available: those that can be reached, and the faster half of them.

        Args:
            broker_names: between which the choice is.

        Returns:
            Those of them; empty where none can be reached.
        """
        found = [self._items.get(name) for name in broker_names]
        items = sorted((item.counted_ms, item.broker_name) for item in found if item is not None and item.reachable)
        if not items:
            return set()
        most = items[max(0, len(items) // 2 - 1)][0]
        return {name for counted, name in items if counted <= most}

    def chosen(self, broker_name: str, *, oneway: bool = False) -> None:
        """Take note that a send goes there now: the first one after a rest is the probe."""
        with self.lock:
            item = self._items.get(broker_name)
            if item is not None and self.is_available(broker_name, oneway=oneway):
                item.probe_until = self._clock() + self._probe_timeout
                self._probes += 1

    # --- brokers that could not be reached ----------------------------------------------------------------

    def unreachable(self) -> list[str]:
        """The brokers that rest because they could not be reached."""
        now = self._clock()
        with self.lock:
            return [item.broker_name for item in self._items.values() if not item.reachable and now < item.available_at]

    def detected(self, broker_name: str) -> None:
        """Take note that a broker can be reached again: its rest is over, and the next send there is the probe."""
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
        """What is held against brokers now; copies."""
        with self.lock:
            return [attrs.evolve(item) for item in self._items.values()]

    def statistics(self) -> FaultStatistics:
        """What is held against brokers now, for users."""
        now = self._clock()  # without the lock, which another thread may have held at a fork
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
