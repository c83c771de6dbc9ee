"""What waits, and where it is found: by queue, by group, by connection, and the connection that has most.

Plain tables; `waiters` has the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
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
    """Something came that it wants."""
    TIMED_OUT = "timedOut"
    OFFSET_ILLEGAL = "offsetIllegal"
    """It waits for an offset that the queue, as it is now, will not reach next."""
    QUEUE_GONE = "queueGone"
    """Its topic was deleted, or has fewer queues now."""
    SHUT_DOWN = "shutDown"
    OVER_BOUND = "overBound"
    """There was no room for it, or it had to make room."""
    REPLACED = "replaced"
    """The same client asked again for the same."""
    RECALLED = "recalled"
    """Its group shall ask again now: an administrator has set its offsets."""
    CONNECTION_CLOSED = "connectionClosed"
    """Nobody is left to answer: it was dropped and not run again."""


@attrs.define(eq=False)
class Waiter(ABC):
    """One request that waits. A kind of waiting derives from it."""

    connection: Connection
    request: RemotingCommand
    topic: str
    queue_id: int
    group: str
    resume: Callable[[Waiter], None]
    """Answers it in any case; called once, with its connection open."""
    size: int
    """Bytes that are kept for it, by a generous estimate."""
    tick: int = 0
    is_waiting: bool = False
    is_counted: bool = False
    """Whether its bytes are counted."""

    @property
    def key(self) -> Hashable:
        """A newer waiter of a queue with the same key takes the place of the older."""
        return self.connection, self.group

    @abstractmethod
    def judge(self, arrival: Arrival, codes: Collection[int]) -> Reason | None:
        """Whether messages that arrived in its queue end the waiting, and why.

        Args:
            arrival: the messages.
            codes: their tag hashes, each once where they are many.
        """


class Held:
    """What one connection has."""

    __slots__ = ("size", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.size = 0


class WaiterIndex:
    """The tables.

    Attributes:
        count: How many waiters there are.
    """

    def __init__(self) -> None:
        self.count = 0
        self._topics: dict[str, dict[int, _Queue]] = {}
        self._groups: dict[str, dict[Waiter, None]] = {}
        self._connections: dict[Connection, Held] = {}
        self._ranks: Ranks[Connection] = Ranks()

    @property
    def most(self) -> int:
        """How many the connection has that has most."""
        return self._ranks.most

    # --- finding ---------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int) -> Mapping[Hashable, Waiter]:
        """Who waits in a queue, by key."""
        queues = self._topics.get(topic)
        return _NOBODY if queues is None else queues.get(queue_id, _NOBODY)

    def of_topic(self, topic: str) -> Mapping[int, _Queue]:
        """Who waits in the queues of a topic."""
        return self._topics.get(topic, _NOWHERE)

    def waited_for(self, topics: Iterable[str]) -> set[str]:
        """Those of the topics in whose queues somebody waits; of many topics, in one call into C."""
        return self._topics.keys() & topics

    def of_group(self, group: str) -> list[Waiter]:
        """Who waits for a group."""
        return list(self._groups.get(group, ()))

    def all(self) -> Iterator[Waiter]:
        """Everybody."""
        for held in self._connections.values():
            yield from held.waiters

    def held_of(self, connection: Connection) -> Held | None:
        """What a connection has; None when it never had anything."""
        return self._connections.get(connection)

    def newest_of_greediest(self) -> Waiter:
        """The waiter that came last of a connection that has most; there is one."""
        return next(reversed(self._connections[self._ranks.greediest()].waiters))

    # --- in and out ------------------------------------------------------------------------------------

    def add(self, waiter: Waiter) -> bool:
        """Put one in. Whether it is the first that its connection ever has."""
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
        """Take one out."""
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
        """Keep no place for a connection that has closed, once it has nothing any more."""
        held = self._connections.get(connection)
        if held is not None and not held.waiters and not connection.is_open:
            del self._connections[connection]


def _drop(topics: dict[str, dict[int, _Queue]], topic: str, queue_id: int, key: Hashable) -> None:
    """Take a waiter out of its queue, and with the last one the queue and the topic."""
    queues = topics[topic]
    queue = queues[queue_id]
    del queue[key]
    if not queue:
        del queues[queue_id]
        if not queues:
            del topics[topic]
