"""The index file that still grows: entries are written at once, slots and header when it is flushed, in that order.

A slot in the file therefore never names an entry that the disk might not have, whatever a crash leaves. What the slots
are to hold waits in memory, and is read there first. The loop appends and seals, one thread at a time flushes what was
sealed. Plays the part of IndexFile.putKey and of the flushing in IndexService.
"""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.wire.words import big_endian, int_array, words_of
from rocketpy_broker_sim.store.index.file import ENTRY, SLOT, IndexFile, IndexHeader, IndexShape
from rocketpy_broker_sim.store.index.slot_memory import PAGE, SlotMemory, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.index.key_columns import KeyColumns

__all__ = ["GrowingIndexFile"]

_SLOTS_AT = len(IndexHeader().pack())
_CHUNK = 64 * 1024
_MOST_SECONDS = 0x7FFFFFFF
_ENTRY_WORDS = 5
"""Words of 32 bits in an entry: hash, position, which takes two, seconds, and the number of the entry before."""


class _Appended(NamedTuple):
    """Entries that were appended together."""

    places: array[int]
    """The slot of each."""
    before: array[int]
    """What each found there."""


class _Sealed(NamedTuple):
    """What the next flush brings to the file; nothing is added to it any more."""

    header: IndexHeader
    """The header that is written with them."""
    appended: Sequence[_Appended]
    """The entries that slots are to lead to."""


class GrowingIndexFile(IndexFile):
    """The newest file of an index.

    Attributes:
        waiting: How many entries wait in memory for a flush that has not begun.
        is_dirty: Whether it has what is neither flushed nor sealed.
    """

    def __init__(self, storage: Storage, name: str, shape: IndexShape) -> None:
        super().__init__(storage, name, shape)
        self._slots = SlotMemory(shape.slots, self._read_slots)
        self._are_sound = True  # whether the file had no slots that lead nowhere
        self._appended: list[_Appended] = []
        self._sealed: _Sealed | None = None
        self.waiting = 0
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
        self._slots.begin_empty()

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

    def head(self, slot: int) -> int:
        """Number of the newest entry of a slot, 0 for none."""
        number = self._slots.known(slot)
        if number is None:
            return super().head(slot)
        return number if 0 < number <= self.header.next_entry else 0

    def append(self, keys: KeyColumns) -> int:
        """Add as many keys as fit, in log order; returns how many. Repeating it after an error does no harm."""
        header = self.header
        first = header.next_entry
        room = self.shape.entries - first
        if len(keys) > room:
            keys = keys[:room]
        count = len(keys)
        if not count:
            return 0
        slots = self.shape.slots
        places = [hashed % slots for hashed in keys.hashes]
        before, filled = self._before(places)
        appended = _Appended(int_array(places), int_array(before))
        self._opened().pwrite(self._packed(keys, appended.before), self.shape.entries_at + first * ENTRY.size)
        self._appended.append(appended)  # before the slots change: a flush takes back what it was not to see
        self._slots.update(places, range(first, first + count))
        self.waiting += count
        position, time = keys.positions[0], keys.times[0]
        if first > 1:
            time, position = header.begin_timestamp, header.begin_position
        self.header = IndexHeader(
            time, keys.times[-1], position, keys.positions[-1], header.slot_count + filled, first + count
        )
        self.is_dirty = True
        return count

    def _before(self, places: Sequence[int]) -> tuple[Sequence[int], int]:
        """What new entries find in their slots, and how many of them are the first there."""
        heads, end = self._slots.get(places), self.header.next_entry
        if not self._are_sound:
            heads = [head if 0 < head <= end else 0 for head in heads]
        filled = heads.count(0)
        if len(set(places)) == len(places):
            return heads, filled
        heads = list(heads)
        return heads, filled - _chain(places, heads, end)

    def _packed(self, keys: KeyColumns, before: array[int]) -> bytes:
        """The entries of keys, as they stand in the file."""
        words = array("i", bytes(ENTRY.size * len(keys)))
        words[0::_ENTRY_WORDS] = keys.hashes
        words[1::_ENTRY_WORDS], words[2::_ENTRY_WORDS] = words_of(keys.positions)
        words[3::_ENTRY_WORDS] = self._seconds(keys.times)
        words[4::_ENTRY_WORDS] = before
        return big_endian(words).tobytes()

    def _read_slots(self, begin: int, count: int) -> array[int]:
        """Slots as the file has them. None of them waits for a flush: a page is read before its first slot changes."""
        data = self._read(_SLOTS_AT + begin * SLOT.size, count * SLOT.size)
        numbers = array("i", data)
        if data.count(0) < len(data):
            big_endian(numbers)
            self._are_sound &= min(numbers) >= 0 and max(numbers) <= self.header.next_entry
        return numbers

    def _seconds(self, times: array[int]) -> array[int]:
        """What entries hold of store times. The first entry of a file counts from where the file before it ended, all
        others from the first.
        """
        begin, is_first = self.header.begin_timestamp, self.header.next_entry == 1
        start = times[0] if is_first else begin
        if times == times[:1] * len(times):  # as it is for a batch
            seconds = array("i", [_seconds(times[0], start)]) * len(times)
        else:
            known = {time: _seconds(time, start) for time in set(times)}
            seconds = int_array([known[time] for time in times])
        if is_first:
            seconds[0] = _seconds(times[0], begin)
        return seconds

    def seal(self) -> None:
        """Hand over what was appended to the next flush; not before the one before has returned."""
        self._sealed = _Sealed(self.header, self._appended)
        self._appended = []
        self.waiting = 0
        self.is_dirty = False

    # --- flushing, in a thread

    def flush(self) -> None:
        """Return when the disk has what was sealed: first the entries, then the slots that name them."""
        sealed = self._sealed
        if sealed is None:
            return
        runs = self._sealed_runs(sealed)
        file = self._storage.open(self.path)
        try:
            file.fdatasync()
            for begin, numbers in runs:
                file.pwrite(big_endian(numbers).tobytes(), _SLOTS_AT + begin * SLOT.size)
            file.fdatasync()
            file.pwrite(sealed.header.pack(), 0)
            file.fdatasync()
        finally:
            file.close()
        self._sealed = None

    def _sealed_runs(self, sealed: _Sealed) -> Sequence[tuple[int, array[int]]]:
        """The pages of slots in which entries were sealed, as they were then: where they begin, and their slots."""
        places = chain.from_iterable([appended.places for appended in sealed.appended])
        runs = [(begin, self._slots.copy(begin, end)) for begin, end in runs_of(places, self.shape.slots)]
        later = self._appended[:]  # all that may be in the copies is there: it is noted before the slots change
        if later:
            pages = {page: run for run in runs for page in range(run[0] // PAGE, -(-(run[0] + len(run[1])) // PAGE))}
            for appended in reversed(later):
                for place, before in zip(reversed(appended.places), reversed(appended.before), strict=True):
                    run = pages.get(place // PAGE)
                    if run is not None:
                        run[1][place - run[0]] = before
        return runs

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
        if not heads:
            return
        file, slots = self._opened(), self._slots
        slots.get(list(heads))
        slots.update(heads, heads.values())
        for begin, end in runs_of(heads, self.shape.slots):
            file.pwrite(big_endian(slots.copy(begin, end)).tobytes(), _SLOTS_AT + begin * SLOT.size)
        slots.close()  # what was read had slots that lead nowhere
        self._are_sound = True

    def close(self) -> None:
        """Close the file; it is opened again when it is needed. The slots are, once a flush has brought them there."""
        super().close()
        if self.is_full and not self._appended and self._sealed is None:
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
