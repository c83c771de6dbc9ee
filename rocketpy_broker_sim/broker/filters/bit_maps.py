"""Computes which filters a message matches, as a bit map for its consume queue's extension.

Topics without filters get no bit maps, and cost nothing. For the others, the time of each dispatching step is limited:
messages for which it has no time get no bit map, and readers evaluate them themselves. Filters that would take too long
for every message are not evaluated here, and their bits are always set. Plays CommitLogDispatcherCalcBitMap.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketpy_broker_sim.broker.tables.filters import ConsumerFilterTable

__all__ = ["BitMapper"]

STEP_COST = 4000.0
"""Microseconds that one step may spend, by estimate."""
MESSAGE_COST = 200.0
"""Microseconds that one message may cost, by estimate."""


class _Asked(NamedTuple):
    """The filters of a topic, divided by their cost.

    Attributes:
        filters: Those that are evaluated, each with its bits.
        always: The bits of the others.
        cost: About how many microseconds a message takes.
        cost_of_byte: About how many microseconds more for each byte of its properties.
    """

    filters: Sequence[tuple[Callable[[bytes], bool], int]]
    always: int
    cost: float
    cost_of_byte: float


class BitMapper:
    """Makes the bit maps.

    Args:
        filters: the filters by topic and group.
    """

    def __init__(self, filters: ConsumerFilterTable) -> None:
        self._filters = filters
        self._left = STEP_COST
        self._asked: dict[str, _Asked] = {}
        self._version = -1

    def begin(self) -> Container[str]:
        """Start another step. Returns the topics that have filters, or had some until recently."""
        self._left = STEP_COST
        if self._version != self._filters.version:
            self._version = self._filters.version
            self._asked.clear()
        return self._filters.topics

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        """The bit map of each message of a topic that has filters; empty if there was no time for it."""
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
