"""Which messages stood in damaged regions of the log: told by the offsets that are missing, and by the old units.

Every record that survived says its own offset, so a jump shows what is gone; the units of the old queues say where it
stood, and what was lost behind the last survivor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.inspect.index_view import record_at
from rocketpy_broker_sim.store.inspect.units import is_filler
from rocketpy_broker_sim.store.log.place_holders import place_holder_size
from rocketpy_broker_sim.store.queue.dispatch_request import is_consumable

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout
    from rocketpy_broker_sim.store.inspect.units import QueueUnits
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["LostMessage", "Survivors"]

MAX_ODD = 10_000
MAX_GAP = 10_000_000
"""Offsets that may be missing in a row; a record that claims more says something wrong of itself."""


class LostMessage(NamedTuple):
    """A message that is gone."""

    topic: str
    """Its topic."""
    queue_id: int
    """Number of its queue."""
    queue_offset: int
    """Its offset in the queue, in messages."""
    region: int
    """Number of the damaged region in which it stood."""


class _Gap(NamedTuple):
    first: int
    """Queue offset of the first message that is missing."""
    size: int
    """How many are missing, one after the other."""
    after: int
    """Position of the record before it."""
    before: int
    """Position of the record behind it."""


class _Untold(NamedTuple):
    """Offsets in a row of which no unit tells where they stood."""

    highest: int
    """Number of the last region in which they may have stood."""
    lowest: int
    """Number of the first one."""
    key: QueueKey
    """Their queue."""
    begin: int
    """The first of them."""
    end: int
    """The offset behind the last one."""


class _Seen:
    """What is known of a queue while its records go by."""

    __slots__ = ("first", "following", "gaps", "held", "last")

    def __init__(self, first: int) -> None:
        self.first = first
        self.following = first
        self.last = -1
        self.gaps: list[_Gap] = []
        self.held: tuple[int, int] | None = None
        """Offset and position of a record that does not follow, until the next one tells which of them is odd."""

    def restart(self, offset: int) -> None:
        """Begin again: the topic was deleted and made again."""
        self.first = self.following = offset
        self.gaps.clear()

    def take(self, offset: int, position: int) -> None:
        """Count a record, and what is missing before it."""
        if offset < self.following:
            self.restart(offset)
        elif 0 < offset - self.following <= MAX_GAP:
            self.gaps.append(_Gap(self.following, offset - self.following, self.last, position))
        self.following, self.last = offset + 1, position


class Survivors:
    """The offsets of the records that survived, and what is missing between them."""

    def __init__(self, layout: StoreLayout, units: QueueUnits) -> None:
        self._layout = layout
        self._units = units
        self._queues: dict[QueueKey, _Seen] = {}
        self._odd: list[int] = []
        """Positions of records that do not follow the one before them in their queue."""
        self._contradictory: set[int] = set()
        """Positions of those that stand where another offset belongs."""

    def see(self, record: LogRecord) -> None:
        """Take in the next record of the log."""
        if not is_consumable(record.sys_flag):
            return
        key, offset = (record.topic.decode(), record.queue_id), record.queue_offset
        seen = self._queues.get(key)
        if seen is None:
            seen = self._queues[key] = _Seen(offset)
            if offset and key not in self._layout.queues:
                self._note(record.position)
        held, seen.held = seen.held, None
        if held is not None and offset == seen.following + 1 != held[0] + 1:
            self._contradictory.add(held[1])  # all but that one are in order
            seen.take(offset, record.position)
            return
        if held is not None:
            seen.take(*held)
        if offset == seen.following:
            seen.take(offset, record.position)
        else:
            self._note(record.position)
            if offset == seen.following - 1:
                self._note(seen.last)  # two claim one offset, and either may be wrong
            seen.held = (offset, record.position)

    def _note(self, position: int) -> None:
        if len(self._odd) < MAX_ODD:
            self._odd.append(position)

    def _settle(self) -> None:
        """Count the records that were held back at the end."""
        for seen in self._queues.values():
            if seen.held is not None:
                held, seen.held = seen.held, None
                seen.take(*held)

    def suspects(self, regions: Sequence[tuple[int, int]]) -> set[int]:
        """Positions of records that are valid by their checksums and yet cannot be right.

        An offset that is missing between two records while nothing is damaged there belongs to a record that says
        something else of itself: the one to which the old unit leads, or else one that breaks the order of its queue.

        Raises:
            StoreCorruptError: Nothing tells which record it is.
        """
        self._starts = [begin for begin, _ in regions]
        self._regions = regions
        self._settle()
        found = set(self._contradictory)
        for key, seen in self._queues.items():
            for gap in seen.gaps:
                known = any(gap.after < position < gap.before for position in self._contradictory)
                if not known and not self._possible(gap):
                    found |= self._suspects_of(key, gap)
        return found

    def _suspects_of(self, key: QueueKey, gap: _Gap) -> set[int]:
        found = set()
        for offset in range(gap.first, gap.first + gap.size):
            unit = self._units.get(key, offset) if key in self._layout.queues else None
            record = None if unit is None or is_filler(unit) else record_at(self._layout, unit[0])
            if record is not None and (record.topic.decode(), record.queue_id, record.queue_offset) != (*key, offset):
                found.add(record.position)
        found = found or {position for position in self._odd if gap.after < position < gap.before}
        if found:
            return found
        raise StoreCorruptError(
            f"offset {gap.first} of queue {key[1]} of {key[0]!r:.200} is missing between positions {gap.after} and "
            f"{gap.before} of the log, and nothing there is damaged: put the files back from a copy",
            path=self._layout.log.folder,
            offset=gap.after,
        )

    def _possible(self, gap: _Gap) -> list[int]:
        """The regions between the records around a gap."""
        return [index for index, (begin, end) in enumerate(self._regions) if begin > gap.after and end <= gap.before]

    def lost(self, regions: Sequence[tuple[int, int]]) -> Sequence[LostMessage]:
        """The messages that stood in regions, by queue and offset.

        Args:
            regions: (begin, end) of each, in order.
        """
        self._starts = [begin for begin, _ in regions]
        self._regions = regions
        found: list[LostMessage] = []
        untold: list[_Untold] = []
        for key in self._queues.keys() | self._layout.queues.keys():
            seen = self._queues.get(key)
            if seen is None:
                found += self._all(key)
                continue
            found += self._row(key, seen.first - 1, -1)
            for gap in seen.gaps:
                found += self._between(key, gap, untold)
            found += self._row(key, seen.following, 1)
        return sorted([*found, *self._fitted(untold, found)])

    def _between(self, key: QueueKey, gap: _Gap, untold: list[_Untold]) -> Iterator[LostMessage]:
        """What is missing between two records stood in a region between them; the units know in which.

        Args:
            key: The queue.
            gap: What is missing.
            untold: Takes the offsets without a unit that tells. They stood between those around them: in another order
                the queue could not be built from the log.
        """
        possible = self._possible(gap)
        if not possible:
            return
        lowest, highest = possible[0], possible[-1]
        begin, end = gap.first, gap.first + gap.size
        for offset in range(begin, end):
            told = self._region_of(key, offset)
            if told is None or not lowest <= told <= highest:
                continue
            if begin < offset:
                untold.append(_Untold(told, lowest, key, begin, offset))
            yield LostMessage(*key, offset, told)
            lowest, begin = told, offset + 1
        if begin < end:
            untold.append(_Untold(highest, lowest, key, begin, end))

    def _fitted(self, untold: list[_Untold], told: Sequence[LostMessage]) -> Iterator[LostMessage]:
        """Regions for offsets of which no unit tells: the first with room, before others that may go further on."""
        rooms = [end - begin for begin, end in self._regions]
        for lost in told:
            rooms[lost.region] -= place_holder_size(lost.topic.encode())
        coming = deque(sorted(untold, key=lambda row: row.lowest))
        waiting: list[_Untold] = []
        for region, room in enumerate(rooms):
            while coming and coming[0].lowest == region:
                heappush(waiting, coming.popleft())
            while waiting:
                row = heappop(waiting)
                size = place_holder_size(row.key[0].encode())
                end = row.end if row.highest == region else min(row.end, row.begin + max(0, room) // size)
                yield from (LostMessage(*row.key, offset, region) for offset in range(row.begin, end))
                room -= size * (end - row.begin)
                if end < row.end:
                    heappush(waiting, row._replace(begin=end))
                    break

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
