"""The recent reads of groups: messages a second from each topic, and pull offsets. In memory only, and bounded.

Plays the part of GROUP_GET_NUMS in BrokerStatsManager and of the pull offsets in ConsumerOffsetManager.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.rates import Rate

__all__ = ["GroupReads"]

MOST_PAIRS = 20_000
"""How many pairs of topic and group are remembered; those read least recently are forgotten first."""
MOST_QUEUES = 20_000
"""How many queues of all pairs are remembered: about two megabytes, whatever a peer pulls."""


class _Reads:
    __slots__ = ("positions", "rate")

    def __init__(self, now: float) -> None:
        self.rate = Rate(now)
        self.positions: dict[int, int] = {}


class GroupReads:
    """The reads, by topic and group.

    Args:
        clock: the loop's clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pairs: dict[tuple[str, str], _Reads] = {}
        """By topic and group; the pair that was read last is the last one."""
        self._queues = 0

    def note(self, topic: str, group: str, queue_id: int, count: int, next_offset: int) -> None:
        """Count a pull that was answered with `count` messages; the next one will begin at `next_offset`."""
        pair = topic, group
        found = self._pairs.pop(pair, None)
        if found is None:
            found = _Reads(self._clock())
        self._pairs[pair] = found
        if count:
            found.rate.add(self._clock(), count)
        if queue_id not in found.positions:
            self._queues += 1
        found.positions[queue_id] = next_offset
        while len(self._pairs) > MOST_PAIRS or (self._queues > MOST_QUEUES and len(self._pairs) > 1):
            self._forget(next(iter(self._pairs)))

    def position(self, topic: str, group: str, queue_id: int) -> int | None:
        """The offset at which the next pull of a queue will begin, None if the group has not pulled it."""
        found = self._pairs.get((topic, group))
        return found.positions.get(queue_id) if found is not None else None

    def per_second(self, topic: str, group: str) -> float:
        """Messages a second that the group got from the topic in the last minute."""
        found = self._pairs.get((topic, group))
        return found.rate.minute(self._clock()).per_second if found is not None else 0.0

    def __len__(self) -> int:
        """The number of pairs that are remembered."""
        return len(self._pairs)

    def _forget(self, pair: tuple[str, str]) -> None:
        self._queues -= len(self._pairs.pop(pair).positions)
