"""Which filters a message passes, as a bit map for the extension of its queue. Plays CommitLogDispatcherCalcBitMap.

Topics that nobody filters get none, and cost nothing. For the others each step of dispatching has so much time. What it
has no time for gets no map, which says nothing: readers look at those messages themselves. So it is with filters that
would take too long for every message: their bits are set.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable

__all__ = ["BitMapper"]

STEP_COST = 4000.0
"""Microseconds, about, that one step may spend."""
MESSAGE_COST = 200.0
"""The same for one message."""


class _Asked(NamedTuple):
    """What is asked about each message of a topic.

    Attributes:
        filters: Those that are asked, each with its bits.
        always: Bits of the others.
        cost: About how many microseconds it takes.
        cost_of_byte: The same for each byte of the properties.
    """

    filters: Sequence[tuple[Callable[[bytes], bool], int]]
    always: int
    cost: float
    cost_of_byte: float


class BitMapper:
    """Makes the bit maps.

    Args:
        filters: who filters which topic.
    """

    def __init__(self, filters: ConsumerFilterTable) -> None:
        self._filters = filters
        self._left = STEP_COST
        self._asked: dict[str, _Asked] = {}
        self._version = -1

    def begin(self) -> Container[str]:
        """Another step begins. Returns the topics that are filtered, or have been lately."""
        self._left = STEP_COST
        if self._version != self._filters.version:
            self._version = self._filters.version
            self._asked.clear()
        return self._filters.topics

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        """The bit map of each message of a topic that is filtered; empty without time for it."""
        asked = self._asked.get(topic)
        if asked is None:
            asked = self._asked[topic] = self._asked_of(topic)
        found = []
        for each in properties:
            if self._left <= 0:
                found.append(b"")
                continue
            self._left -= asked.cost + asked.cost_of_byte * len(each)
            masks = [mask for matches, mask in asked.filters if matches(each)]
            found.append(self._filters.bloom.bits([asked.always, *masks]))
        return found

    def _asked_of(self, topic: str) -> _Asked:
        always, cost, cost_of_byte, asked = 0, 1.0, 0.0, []
        for data in self._filters.of_topic(topic).values():
            if cost + data.compiled.cost > MESSAGE_COST:
                always |= data.mask
            else:
                cost += data.compiled.cost
                cost_of_byte += data.compiled.cost_of_byte
                asked.append((data.compiled.matches, data.mask))
        return _Asked(asked, always, cost, cost_of_byte)
