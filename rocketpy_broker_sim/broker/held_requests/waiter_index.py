"""The indexes of held requests: by queue, group and connection, and the connection that has the most.

Plain tables; the rules are in `waiters`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from rocketpy.remoting.connection import Connection
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.broker.ranks import Ranks

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Reason", "Waiter", "WaiterIndex"]

_Queue = dict[Hashable, "Waiter"]
_NOBODY: Mapping[Hashable, Waiter] = MappingProxyType({})
_NOWHERE: Mapping[int, _Queue] = MappingProxyType({})


class Reason(Enum):
    """Why a waiter was run again, or refused; the value is its name in the runtime info."""

    ARRIVED = "arrived"
    """A message that it wants arrived."""
    TIMED_OUT = "timedOut"
    OFFSET_ILLEGAL = "offsetIllegal"
    """It waits for an offset that the queue will not reach next."""
    QUEUE_GONE = "queueGone"
    """Its topic was deleted, or has fewer queues now."""
    SHUT_DOWN = "shutDown"
    OVER_BOUND = "overBound"
    """There was no room for it, or it was answered to make room for another."""
    REPLACED = "replaced"
    """The same client sent the same request again."""
    RECALLED = "recalled"
    """An administrator has reset its group in this queue; the answer has the new offset."""
    CONNECTION_CLOSED = "connectionClosed"
    """Its connection has closed: it was dropped and not run again."""


@attrs.define(eq=False)
class Waiter(ABC):
    """A held request; base class of each kind of them."""

    connection: Connection
    request: RemotingCommand
    topic: str
    queue_id: int
    group: str
    size: int
    """Bytes kept for it, by a generous estimate."""
    tick: int = 0
    is_waiting: bool = False
    is_counted: bool = False
    """Whether its bytes are counted."""

    @property
    def key(self) -> Hashable:
        """A newer waiter of a queue replaces the older one with the same key."""
        return self.connection, self.group

    @abstractmethod
    def judge(self, arrival: Arrival, codes: Collection[int]) -> Reason | None:
        """The reason if messages that arrived in its queue end the wait, otherwise None.

        Args:
            arrival: the messages.
            codes: their tag hashes; if there are many, each once.
        """


class Held:
    """The waiters of one connection."""

    __slots__ = ("size", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.size = 0


class WaiterIndex:
    """The indexes.

    Attributes:
        count: The number of waiters.
    """

    def __init__(self) -> None:
        self.count = 0
        self._topics: dict[str, dict[int, _Queue]] = {}
        self._groups: dict[str, dict[Waiter, None]] = {}
        self._connections: dict[Connection, Held] = {}
        self._ranks: Ranks[Connection] = Ranks()

    @property
    def most(self) -> int:
        """The number of waiters of the connection that has the most."""
        return self._ranks.most

    # --- finding ---------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Mapping[Hashable, Waiter]:
        """The waiters of a queue, by key."""
        queues = self._topics.get(topic)
        return _NOBODY if queues is None else queues.get(queue_id, _NOBODY)

    def of_topic(self, topic: str) -> Mapping[int, _Queue]:
        """The waiters of a topic, by queue id and key."""
        return self._topics.get(topic, _NOWHERE)

    def waited_for(self, topics: Iterable[str]) -> set[str]:
        """The topics among these that have waiters, found in one call into C."""
        return self._topics.keys() & topics

    def of_group(self, group: str) -> list[Waiter]:
        """The waiters of a group."""
        return list(self._groups.get(group, ()))

    def all(self) -> Iterator[Waiter]:
        """All waiters."""
        for held in self._connections.values():
            yield from held.waiters

    def held_of(self, connection: Connection) -> Held | None:
        """The waiters of a connection; None if it never had any."""
        return self._connections.get(connection)

    def newest_of_greediest(self) -> Waiter:
        """The newest waiter of a connection that has the most; there must be one."""
        return next(reversed(self._connections[self._ranks.greediest()].waiters))

    # --- in and out ------------------------------------------------------------------------------------

    def add(self, waiter: Waiter) -> bool:
        """Add a waiter. Returns whether it is the first one ever of its connection."""
        waiter.is_waiting = True
        self.count += 1
        queues = self._topics.get(waiter.topic)
        if queues is None:
            queues = self._topics[waiter.topic] = {}
        queues.setdefault(waiter.queue_id, {})[waiter.key] = waiter
        self._groups.setdefault(waiter.group, {})[waiter] = None
        held = self._connections.get(waiter.connection)
        is_first = held is None
        if held is None:
            held = self._connections[waiter.connection] = Held()
        held.waiters[waiter] = None
        held.size += waiter.size
        self._ranks.add(waiter.connection)
        return is_first

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter."""
        waiter.is_waiting = False
        self.count -= 1
        _drop(self._topics, waiter.topic, waiter.queue_id, waiter.key)
        group = self._groups[waiter.group]
        del group[waiter]
        if not group:
            del self._groups[waiter.group]
        held = self._connections[waiter.connection]
        del held.waiters[waiter]
        held.size -= waiter.size
        self._ranks.remove(waiter.connection)
        self.forget(waiter.connection)

    def forget(self, connection: Connection) -> None:
        """Remove the entry of a closed connection once it has no waiters."""
        held = self._connections.get(connection)
        if held is not None and not held.waiters and not connection.is_open:
            del self._connections[connection]


def _drop(topics: dict[str, dict[int, _Queue]], topic: str, queue_id: int, key: Hashable) -> None:
    """Remove a waiter from its queue, and the entries of queue and topic with the last one."""
    queues = topics[topic]
    queue = queues[queue_id]
    del queue[key]
    if not queue:
        del queues[queue_id]
        if not queues:
            del topics[topic]
