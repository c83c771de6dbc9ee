"""The slots of an index file that grows, in memory: a dispatch looks up a hundred, and a call each would be too dear.

A page of slots is read when one of its slots is first looked at; a file that was just made needs no reading. The memory
is the system's own, of which it gives only what is touched: never more than the file has for its slots, 20 MB with the
default settings.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

__all__ = ["PAGE", "SlotMemory", "runs_of"]

PAGE = 1024
"""Slots that are read and written together."""
_MOST_PAGES = 64
"""Pages that are written with one call."""
_SIZE = array("i").itemsize


class SlotMemory:
    """The slots of one file.

    Args:
        count: How many there are.
        read: Gives so many slots from a number on, as the file has them.
    """

    __slots__ = ("_count", "_is_whole", "_loaded_pages", "_memory", "_read", "_slots")

    def __init__(self, count: int, read: Callable[[int, int], array[int]]) -> None:
        self._count = count
        self._read = read
        self._memory: mmap.mmap | None = None
        self._slots = memoryview(b"").cast("i")
        self._loaded_pages: set[int] = set()
        self._is_whole = False  # whether no page is missing

    def begin_empty(self) -> None:
        """Take all slots for 0: the file is new."""
        self._is_whole = True

    def get(self, places: Sequence[int]) -> Sequence[int]:
        """The values of some slots.

        Raises:
            OSError: The disk refused, or there is no memory.
        """
        if self._memory is None:
            self._memory = mmap.mmap(-1, self._count * _SIZE)
            self._slots = memoryview(self._memory).cast("i")
        if not self._is_whole:
            self._load({place // PAGE for place in places} - self._loaded_pages)
        slots = self._slots
        # One call for all of them, where that gives a sequence.
        return itemgetter(*places)(slots) if len(places) > 1 else [slots[place] for place in places]

    def _load(self, pages: Iterable[int]) -> None:
        for page in pages:
            begin = page * PAGE
            count = min(PAGE, self._count - begin)
            self._slots[begin : begin + count] = self._read(begin, count)
            self._loaded_pages.add(page)
        self._is_whole = len(self._loaded_pages) * PAGE >= self._count

    def known(self, place: int) -> int | None:
        """The value of one slot; None where only the file has it."""
        if self._is_whole or place // PAGE in self._loaded_pages:
            return 0 if self._memory is None else self._slots[place]
        return None

    def update(self, places: Iterable[int], values: Iterable[int]) -> None:
        """Change slots that `get` has given."""
        slots = self._slots
        for place, value in zip(places, values, strict=True):
            slots[place] = value

    def copy(self, begin: int, end: int) -> array[int]:
        """Slots as they are now, all of them known. For any thread."""
        memory = self._memory
        assert memory is not None
        return array("i", memory[begin * _SIZE : end * _SIZE])

    def close(self) -> None:
        """Give the memory back; what is asked for then is read again."""
        self._loaded_pages.clear()
        self._is_whole = False
        if self._memory is None:
            return
        self._slots.release()
        self._slots = memoryview(b"").cast("i")
        self._memory.close()
        self._memory = None


def runs_of(places: Iterable[int], count: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of runs of pages in which places lie, out of `count` slots; one call can write each of them."""
    begin = end = 0
    for page in sorted({place // PAGE for place in places}):
        if page * PAGE != end or end - begin >= _MOST_PAGES * PAGE:
            if end:
                yield begin, end
            begin = page * PAGE
        end = min((page + 1) * PAGE, count)
    if end:
        yield begin, end
