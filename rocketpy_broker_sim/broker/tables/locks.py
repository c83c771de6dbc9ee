"""Locks on queues, which clients with orderly consumers take and renew. Plays RebalanceLockManager.

A lock belongs to a client id. It outlives the client's connection, so that a client which reconnects keeps its locks. A
lock that is not renewed expires. Locks are in memory only: as with Apache's broker, all queues are free after a
restart.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING

import attrs

from rocketpy.logs import Seldom, get_logger
from rocketpy_broker_sim.serving.memory import TableRoom

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["LOCK_SECONDS", "HeldLock", "QueueLocks"]

log = get_logger(__name__)

LOCK_SECONDS = 60.0
"""Seconds until a lock expires unless it is renewed. In Java: rocketmq.broker.rebalance.lockMaxLiveTime."""
_BYTES_A_LOCK = 512
"""Estimated bytes of a lock, without its names."""
_BYTES_A_CHARACTER = 4


@attrs.frozen
class HeldLock:
    """A lock on a queue, as a broker knows it.

    Attributes:
        client_id: The holder.
        expires_in: Seconds until it is free for others, unless its holder renews it.
    """

    client_id: str
    expires_in: float


@attrs.frozen(eq=False)
class _Lock:
    """The lock on one queue, or on several that a client took together: a request may have thousands of them.

    Attributes:
        client_id: The holder.
        refreshed: When it was taken or last renewed, on the loop's clock.
    """

    client_id: str
    refreshed: float


class QueueLocks:
    """The locks of all consumer groups.

    Args:
        clock: the loop's clock, in seconds.
        room: counts and bounds the memory that locks take; None for no bound.
        seconds: how long a lock lasts unless it is renewed.
    """

    def __init__(
        self, clock: Callable[[], float], room: TableRoom | None = None, *, seconds: float = LOCK_SECONDS
    ) -> None:
        self._clock = clock
        self._room = room or TableRoom()
        self._seconds = seconds
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        """By group; in each, the lock that was renewed last is the last one."""
        self._seldom = Seldom(log, clock=clock)

    def lock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        """Lock a queue for a client, or renew its lock. False if another client holds it.

        Raises:
            BrokerError: there is no room for another lock.
        """
        return bool(self.lock_together(group, [queue], client_id))

    def lock_together(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock queues for a client, or renew its locks; return those that no other client holds.

        Raises:
            BrokerError: there is no room for another lock; the queues before it are locked.
        """
        now = self._clock()
        lock, names = _Lock(client_id, now), dict[str, str]()
        taken = []
        for each in queues:
            if self._is_free(group, each, client_id, now):
                # Each queue of a request comes with copies of its names, which would take as much memory as the lock.
                topic, broker_name = names.setdefault(each.topic, each.topic), each.broker_name
                queue = each._replace(topic=topic, broker_name=names.setdefault(broker_name, broker_name))
                self._put(group, queue, lock)
                taken.append(queue)
        return taken

    def _is_free(self, group: str, queue: MessageQueue, client_id: str, now: float) -> bool:
        """Whether no other client holds a queue."""
        found = self._groups.get(group, {}).get(queue)
        if found is None or found.client_id == client_id:
            return True
        if not self._has_run_out(found, now):
            self._seldom.info((group, client_id), "group %s: %s is held by %r", group, queue, found.client_id)
            return False
        log.info("group %s: the lock of %r on %s has expired", group, found.client_id, queue)
        return True

    def _put(self, group: str, queue: MessageQueue, lock: _Lock) -> None:
        held = self._groups.get(group, {})
        found = held.get(queue)
        before = _size_of(group, queue, found.client_id) if found is not None else 0
        self._room.take(_size_of(group, queue, lock.client_id) - before)
        held.pop(queue, None)
        held[queue] = lock
        self._groups[group] = held

    def unlock(self, group: str, queue: MessageQueue, client_id: str) -> bool:
        """Unlock a queue. False if the client does not hold it."""
        held = self._groups.get(group, {})
        found = held.get(queue)
        if found is None or found.client_id != client_id:
            return False
        self._drop(group, queue)
        return True

    def holds_any(self, group: str) -> bool:
        """Whether a client of the group holds a lock, which means that the group consumes in order."""
        held = self._groups.get(group)
        return held is not None and not self._has_run_out(held[next(reversed(held))], self._clock())

    def held(self, group: str) -> dict[MessageQueue, HeldLock]:
        """The locks of a group's members, by queue."""
        now = self._clock()
        return {
            queue: HeldLock(lock.client_id, lock.refreshed + self._seconds - now)
            for queue, lock in sorted(self._groups.get(group, {}).items())
            if not self._has_run_out(lock, now)
        }

    def sweep(self) -> Generator[None, None, None]:
        """Remove expired locks, in steps of one lock or one group."""
        for group in list(self._groups):
            while held := self._groups.get(group):
                queue, oldest = next(iter(held.items()))
                if not self._has_run_out(oldest, self._clock()):
                    break
                self._drop(group, queue)
                yield
            yield

    def __len__(self) -> int:
        """The number of locks, some of which may have expired."""
        return sum(map(len, self._groups.values()))

    def _has_run_out(self, lock: _Lock, now: float) -> bool:
        return now - lock.refreshed > self._seconds

    def _drop(self, group: str, queue: MessageQueue) -> None:
        held = self._groups[group]
        self._room.note(-_size_of(group, queue, held.pop(queue).client_id))
        if not held:
            del self._groups[group]


def _size_of(group: str, queue: MessageQueue, client_id: str) -> int:
    """The estimated bytes of a lock. Its names are counted in full, as locks that are taken one by one share none."""
    names = len(group) + len(queue.topic) + len(queue.broker_name) + len(client_id)
    return _BYTES_A_LOCK + _BYTES_A_CHARACTER * names
