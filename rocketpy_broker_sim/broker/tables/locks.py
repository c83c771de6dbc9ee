"""Locks on queues, which clients that consume in order take and refresh. Plays RebalanceLockManager.

A lock belongs to a client, by its id: a connection that closes takes none of them along, so that a client which
reconnects goes on. One that is not refreshed runs out. They are in memory only: after a restart all queues are free, as
with Apache's broker.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import attrs

from rocketpy.logs import Seldom, get_logger
from rocketpy_broker_sim.serving.memory import TableRoom

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["LOCK_SECONDS", "QueueLocks"]

log = get_logger(__name__)

LOCK_SECONDS = 60.0
"""What a lock lasts without being refreshed: the system property rocketmq.broker.rebalance.lockMaxLiveTime of Java."""
_BYTES_A_LOCK = 512
"""What a lock is reckoned to take, beside its names."""
_BYTES_A_CHARACTER = 4


@attrs.define(eq=False)
class _Lock:
    """Who holds a queue.

    Attributes:
        client_id: The holder.
        refreshed: When it was taken or refreshed last, on the loop's clock.
        size: What it is reckoned to take, in bytes.
    """

    client_id: str
    refreshed: float
    size: int


class QueueLocks:
    """Who holds which queue, by consumer group.

    Args:
        clock: the loop's clock, in seconds.
        room: what the locks take counts there; they are only measured when None.
        seconds: what a lock lasts.
    """

    def __init__(
        self, clock: Callable[[], float], room: TableRoom | None = None, *, seconds: float = LOCK_SECONDS
    ) -> None:
        self._clock = clock
        self._room = room or TableRoom()
        self._seconds = seconds
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        """In each group the lock that was refreshed last stands last."""
        self._seldom = Seldom(log, clock=clock)

    def lock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        """Take a queue for a client, or refresh its lock. False when another client holds it.

        Raises:
            BrokerError: there is no room for one lock more.
        """
        held, now = self._groups.get(group, {}), self._clock()
        found = held.get(queue)
        if found is not None and found.client_id != client_id:
            if not self._has_run_out(found, now):
                self._seldom.info((group, client_id), "group %s: %s is held by %r", group, queue, found.client_id)
                return False
            log.info("group %s: the lock of %r on %s has run out", group, found.client_id, queue)
        size = _size_of(group, queue, client_id)
        self._room.take(size - (found.size if found is not None else 0))
        held.pop(queue, None)
        held[queue] = _Lock(client_id, now, size)
        self._groups[group] = held
        return True

    def unlock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        """Give a queue back; only its holder can. Whether it was."""
        held = self._groups.get(group, {})
        found = held.get(queue)
        if found is None or found.client_id != client_id:
            return False
        self._drop(group, queue)
        return True

    def holds_any(self, group: str) -> bool:
        """Whether a client of the group holds a queue, which means that the group consumes in order."""
        held = self._groups.get(group)
        return held is not None and not self._has_run_out(held[next(reversed(held))], self._clock())

    def sweep(self) -> Generator[None, None, None]:
        """Forget what has run out. A step for each lock and each group."""
        for group in list(self._groups):
            while held := self._groups.get(group):
                queue, oldest = next(iter(held.items()))
                if not self._has_run_out(oldest, self._clock()):
                    break
                self._drop(group, queue)
                yield
            yield

    def __len__(self) -> int:
        """Locks that are known, some of which may have run out."""
        return sum(map(len, self._groups.values()))

    def _has_run_out(self, lock: _Lock, now: float) -> bool:
        return now - lock.refreshed > self._seconds

    def _drop(self, group: str, queue: MessageQueue) -> None:
        held = self._groups[group]
        self._room.note(-held.pop(queue).size)
        if not held:
            del self._groups[group]


def _size_of(group: str, queue: MessageQueue, client_id: str) -> int:
    """Bytes that a lock is reckoned to take; each request brings other copies of the names."""
    names = len(group) + len(queue.topic) + len(queue.broker_name) + len(client_id)
    return _BYTES_A_LOCK + _BYTES_A_CHARACTER * names
