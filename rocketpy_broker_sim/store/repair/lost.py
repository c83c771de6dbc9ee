"""Which messages stood in damaged regions of the log: told by the offsets that are missing, and by the old units.

Every record that survived says its own offset, so a jump shows what is gone; the units of the old queues say where it
stood, and what was lost behind the last survivor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rocketpy_broker_sim.store.dispatch import is_consumable
from rocketpy_broker_sim.store.inspect.units import is_filler

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout
    from rocketpy_broker_sim.store.inspect.units import QueueUnits
    from rocketpy_broker_sim.store.log_scan import LogRecord

__all__ = ["LostMessage", "Survivors"]

MAX_GAP = 10_000_000
"""Offsets that may be missing in a row; a record that claims more says something wrong of itself."""


class LostMessage(NamedTuple):
    """A message that is gone."""

    topic: str
    queue_id: int
    queue_offset: int
    region: int
    """Number of the damaged region in which it stood."""


class _Gap(NamedTuple):
    first: int
    size: int
    after: int
    """Position of the record before it."""
    before: int
    """Position of the record behind it."""


class _Seen:
    __slots__ = ("first", "following", "gaps", "last")

    def __init__(self, first: int) -> None:
        self.first = first
        self.following = first
        self.last = -1
        self.gaps: list[_Gap] = []


class Survivors:
    """The offsets of the records that survived, and what is missing between them."""

    def __init__(self, layout: StoreLayout, units: QueueUnits) -> None:
        self._layout = layout
        self._units = units
        self._queues: dict[QueueKey, _Seen] = {}

    def see(self, record: LogRecord) -> None:
        """Take in the next record of the log."""
        if not is_consumable(record.sys_flag):
            return
        key, offset = (record.topic.decode(), record.queue_id), record.queue_offset
        seen = self._queues.get(key)
        if seen is None or offset < seen.following:  # lower again: the topic was deleted and made anew
            seen = self._queues[key] = _Seen(offset)
        elif 0 < offset - seen.following <= MAX_GAP:
            seen.gaps.append(_Gap(seen.following, offset - seen.following, seen.last, record.position))
        seen.following, seen.last = offset + 1, record.position

    def lost(self, regions: Sequence[tuple[int, int]]) -> Iterator[LostMessage]:
        """The messages that stood in regions.

        Args:
            regions: (begin, end) of each, in order.
        """
        self._starts = [begin for begin, _ in regions]
        self._regions = regions
        for key in sorted(self._queues.keys() | self._layout.queues.keys()):
            seen = self._queues.get(key)
            if seen is None:
                yield from self._all(key)
                continue
            yield from reversed(list(self._row(key, seen.first - 1, -1)))
            for gap in seen.gaps:
                yield from self._between(key, gap)
            yield from self._row(key, seen.following, 1)

    def _between(self, key: QueueKey, gap: _Gap) -> Iterator[LostMessage]:
        """What is missing between two records stood in a region between them; the units know in which."""
        possible = [
            index for index, (begin, end) in enumerate(self._regions) if begin > gap.after and end <= gap.before
        ]
        if not possible:
            return
        for offset in range(gap.first, gap.first + gap.size):
            told = self._region_of(key, offset)
            yield LostMessage(*key, offset, told if told in possible else possible[0])

    def _row(self, key: QueueKey, offset: int, step: int) -> Iterator[LostMessage]:
        """Offsets one after the other, as long as their units lead into a region."""
        while offset >= 0 and (region := self._region_of(key, offset)) is not None:
            yield LostMessage(*key, offset, region)
            offset += step

    def _all(self, key: QueueKey) -> Iterator[LostMessage]:
        """Of a queue of which no record survived."""
        for offset in range(self._units.live_begin(key, self._layout.log.start), self._units.end(key)):
            region = self._region_of(key, offset)
            if region is not None:
                yield LostMessage(*key, offset, region)

    def _region_of(self, key: QueueKey, offset: int) -> int | None:
        """The region into which the old unit of an offset leads."""
        if key not in self._layout.queues:
            return None
        unit = self._units.get(key, offset)
        if unit is None or is_filler(unit):
            return None
        index = bisect_right(self._starts, unit[0]) - 1
        return index if index >= 0 and unit[0] < self._regions[index][1] else None
