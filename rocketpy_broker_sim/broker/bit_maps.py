"""Which filters a message passes, as a bit map for the extension of its queue. Plays CommitLogDispatcherCalcBitMap.

Each step of dispatching has so much time for it. Messages beyond that get no map, which says nothing: their readers
look at the messages themselves. So it is with filters that would take too long for every message: their bits are set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        self._asked: dict[str, _Asked | None] = {}
        self._version = -1

    def begin(self) -> None:
        """Another step begins."""
        self._left = STEP_COST
        if self._version != self._filters.version:
            self._version = self._filters.version
            self._asked.clear()

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        """The bit map of each message of a topic; empty without a filter, and without time for it."""
        if topic not in self._asked:
            self._asked[topic] = self._asked_of(topic)
        asked = self._asked[topic]
        if asked is None:
            return [b""] * len(properties)
        found = []
        for each in properties:
            if self._left <= 0:
                found.append(b"")
                continue
            self._left -= asked.cost + asked.cost_of_byte * len(each)
            masks = [mask for matches, mask in asked.filters if matches(each)]
            found.append(self._filters.bloom.bits([asked.always, *masks]))
        return found

    def _asked_of(self, topic: str) -> _Asked | None:
        filters = self._filters.of_topic(topic)
        always, cost, cost_of_byte, asked = 0, 1.0, 0.0, []
        for data in filters.values():
            if cost + data.compiled.cost > MESSAGE_COST:
                always |= data.mask
            else:
                cost += data.compiled.cost
                cost_of_byte += data.compiled.cost_of_byte
                asked.append((data.compiled.matches, data.mask))
        return _Asked(asked, always, cost, cost_of_byte) if filters else None
