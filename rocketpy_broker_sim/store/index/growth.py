"""The index file that still grows: entries are written at once, slots and header when it is flushed, in that order.

A slot in the file therefore never names an entry that the disk might not have, whatever a crash leaves. What the slots
are to hold waits in memory, and is read there first. The loop appends and seals, one thread at a time flushes what was
sealed. Plays the part of IndexFile.putKey and of the flushing in IndexService.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from rocketpy_broker_sim.store.index.file import ENTRY, SLOT, IndexFile, IndexHeader, IndexShape
from rocketpy_broker_sim.store.index.slot_memory import PAGE, SlotMemory, big_endian

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocketpy.seams import File, Storage
    from rocketpy_broker_sim.store.index.keys import IndexKey

__all__ = ["GrowingIndexFile"]

_SLOTS_AT = len(IndexHeader().pack())
_CHUNK = 64 * 1024
_MOST_SECONDS = 0x7FFFFFFF


class _Sealed(NamedTuple):
    """What the next flush brings to the file; nothing is added to it any more."""

    header: IndexHeader
    """The header that is written with them."""
    heads: Mapping[int, int]
    """Slot to the number of its newest entry."""


class GrowingIndexFile(IndexFile):
    """The newest file of an index.

    Attributes:
        is_dirty: Whether it has what is neither flushed nor sealed.
    """

    def __init__(self, storage: Storage, name: str, shape: IndexShape) -> None:
        super().__init__(storage, name, shape)
        self._heads: dict[int, int] = {}
        self._slots = SlotMemory(shape.slots, self._read_slots)
        self._sealed: _Sealed | None = None
        self.is_dirty = False

    def create(self) -> None:
        """Make the file, all zero; it takes no space before something is written."""
        file = self._storage.open(self.path, create=True)
        try:
            file.truncate(self.shape.size)
        except OSError:
            file.close()
            raise
        self._file = file

    def follow(self, before: IndexHeader) -> None:
        """Go on where the file before this one ends. An empty one begins there, as in Java: its first entry counts the
        seconds from then.

        Raises:
            StoreCorruptError: The file begins before the other one ends.
        """
        if self.header.next_entry == 1:
            time, position = before.end_timestamp, before.end_position
            self.header = IndexHeader(time, time, position, position)
        elif self.header.begin_position < before.end_position:
            raise self._corrupt("does not follow the file before it")

    # --- appending, by the loop

    @property
    def waiting(self) -> int:
        """How many slots wait in memory for a flush that has not begun."""
        return len(self._heads)

    def head(self, slot: int) -> int:
        """Number of the newest entry of a slot, 0 for none."""
        number = self._heads.get(slot)
        if number is None:
            sealed = self._sealed  # taken once: the flushing thread puts None there when the file has it
            number = None if sealed is None else sealed.heads.get(slot)
        return super().head(slot) if number is None else number

    def append(self, keys: Sequence[IndexKey]) -> int:
        """Add as many keys as fit, in log order; returns how many. Repeating it after an error does no harm."""
        header = self.header
        first = header.next_entry
        keys = keys[: self.shape.entries - first]
        if not keys:
            return 0
        fresh: dict[int, int] = {}
        entries, filled = self._entries(keys, fresh)
        self._opened().pwrite(entries, self.shape.entries_at + first * ENTRY.size)
        self._heads.update(fresh)
        self._slots.update(fresh)
        _, position, time = keys[0]
        if first > 1:
            time, position = header.begin_timestamp, header.begin_position
        _, end, newest = keys[-1]
        self.header = IndexHeader(time, newest, position, end, header.slot_count + filled, first + len(keys))
        self.is_dirty = True
        return len(keys)

    def _entries(self, keys: Sequence[IndexKey], fresh: dict[int, int]) -> tuple[bytes, int]:
        """The entries of keys, and how many slots they are the first in; notes the newest of each slot."""
        slots, number = self.shape.slots, self.header.next_entry
        hashes, positions, times = zip(*keys, strict=True)
        places = [hashed % slots for hashed in hashes]
        before = self._heads_of(places)
        fresh.update(zip(places, range(number, number + len(keys)), strict=True))
        filled = before.count(0)
        if len(fresh) < len(places):
            filled -= _chain(places, before, number)
        return b"".join(map(ENTRY.pack, hashes, positions, self._seconds(times), before)), filled

    def _heads_of(self, places: Sequence[int]) -> list[int]:
        """`head` of many slots, for as few calls as there can be."""
        heads, end = self._slots.get(places), self.header.next_entry
        return heads if min(heads) >= 0 and max(heads) <= end else [head if 0 < head <= end else 0 for head in heads]

    def _read_slots(self, begin: int, count: int) -> bytes:
        """Slots as the file has them. None of them waits for a flush: a page is read before its first slot changes."""
        return self._read(_SLOTS_AT + begin * SLOT.size, count * SLOT.size)

    def _seconds(self, times: Sequence[int]) -> Sequence[int]:
        """What entries hold of store times. The first entry of a file counts from where the file before it ended, all
        others from the first.
        """
        begin = self.header.begin_timestamp
        first = [_seconds(times[0], begin)] if self.header.next_entry == 1 else []
        if first:
            begin = times[0]
        known = {time: _seconds(time, begin) for time in set(times)}
        return [*first, *[known[time] for time in times[len(first) :]]]

    def seal(self) -> None:
        """Hand over what was appended to the next flush; not before the one before has returned."""
        self._sealed = _Sealed(self.header, self._heads)
        self._heads = {}
        self.is_dirty = False

    # --- flushing, in a thread

    def flush(self) -> None:
        """Return when the disk has what was sealed: first the entries, then the slots that name them."""
        sealed = self._sealed
        if sealed is None:
            return
        file = self._storage.open(self.path)
        try:
            file.fdatasync()
            self._write_heads(file, sealed.heads)
            file.fdatasync()
            file.pwrite(sealed.header.pack(), 0)
            file.fdatasync()
        finally:
            file.close()
        self._sealed = None

    def _write_heads(self, file: File, heads: Mapping[int, int]) -> None:
        """Bring slots to the file, a page at a time."""
        slots = sorted(heads)
        at = 0
        while at < len(slots):
            begin = slots[at] // PAGE * PAGE
            first, at = at, bisect_left(slots, begin + PAGE, at)
            if at - first == 1:
                file.pwrite(SLOT.pack(heads[slots[first]]), _SLOTS_AT + slots[first] * SLOT.size)
                continue
            size = min(PAGE, self.shape.slots - begin) * SLOT.size
            numbers = big_endian(array("i", file.pread(size, _SLOTS_AT + begin * SLOT.size)))
            for slot in slots[first:at]:
                numbers[slot - begin] = heads[slot]
            file.pwrite(big_endian(numbers).tobytes(), _SLOTS_AT + begin * SLOT.size)

    # --- after a crash

    def mend(self) -> None:
        """Let slots that name entries behind the last counted one name the newest counted one instead.

        A crash in the midst of a flush leaves them so. The entries they name had reached the disk before.

        Raises:
            StoreCorruptError: A chain leads nowhere.
        """
        count = self.header.next_entry
        if count > 1:  # a header that is torn says that more is there than it counts
            self.header = self.header._replace(end_position=self.entry(count - 1).position)
        heads = {slot: self._counted(number, count) for slot, number in self._beyond(count)}
        if heads:
            self._write_heads(self._opened(), heads)

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        super().close()
        if self.is_full:
            self._slots.close()

    def write_again(self) -> None:
        """Write once more what was written last: after a flush that failed the system may take it for written."""
        file = self._opened()
        end = self.shape.entries_at + self.header.next_entry * ENTRY.size
        for at in range(0, end, _CHUNK):
            data = file.pread(min(_CHUNK, end - at), at)
            if data.count(0) < len(data):
                file.pwrite(data, at)
        self.is_dirty = True

    def _counted(self, number: int, count: int) -> int:
        while number >= count:
            before = self.entry(number).previous if number < self.shape.entries else number
            if not 0 <= before < number:
                raise self._corrupt(f"has a slot that refers to entry {number}, which does not exist")
            number = before
        return number

    def _beyond(self, count: int) -> Iterator[tuple[int, int]]:
        """The slots that name entries from number `count` on."""
        file = self._opened()
        for begin in range(0, self.shape.slots, _CHUNK):
            size = min(_CHUNK, self.shape.slots - begin) * SLOT.size
            data = file.pread(size, _SLOTS_AT + begin * SLOT.size)
            if data.count(0) == len(data):
                continue
            numbers = big_endian(array("i", data))
            if max(numbers) >= count:
                yield from ((begin + at, number) for at, number in enumerate(numbers) if number >= count)


def _chain(places: Sequence[int], before: list[int], number: int) -> int:
    """Let entries follow those before them that are as new, the first of which has a number; how many were taken for
    the first of their slots.
    """
    newest: dict[int, int] = {}
    mistaken = 0
    for at, place in enumerate(places):
        known = newest.get(place)
        if known is not None:
            mistaken += before[at] == 0
            before[at] = known
        newest[place] = number + at
    return mistaken


def _seconds(timestamp: int, begin: int) -> int:
    """Seconds from one time to another as an entry holds them."""
    return 0 if begin <= 0 or timestamp <= begin else min((timestamp - begin) // 1000, _MOST_SECONDS)
