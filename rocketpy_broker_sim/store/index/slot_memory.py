"""The slots of an index file that grows, in memory: a dispatch looks up a hundred, and a call each would be too dear.

A page of slots is read when one of its slots is first looked at. The memory is the system's own, of which it gives only
what is touched: never more than the file has for its slots, 20 MB with the default settings.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Callable, Mapping, Sequence
from sys import byteorder

__all__ = ["PAGE", "SlotMemory", "big_endian"]

PAGE = 1024
"""Slots that are read and written together."""


def big_endian(numbers: array[int]) -> array[int]:
    """Numbers out of the bytes of a file, or ready for it."""
    if byteorder == "little":
        numbers.byteswap()
    return numbers


class SlotMemory:
    """The slots of one file.

    Args:
        count: How many there are.
        read: Gives the bytes of so many slots from a number on, as the file has them.
    """

    __slots__ = ("_count", "_loaded_pages", "_memory", "_read", "_slots")

    def __init__(self, count: int, read: Callable[[int, int], bytes]) -> None:
        self._count = count
        self._read = read
        self._memory: mmap.mmap | None = None
        self._slots = memoryview(b"").cast("i")
        self._loaded_pages: set[int] = set()

    def get(self, places: Sequence[int]) -> list[int]:
        """The values of some slots.

        Raises:
            OSError: The disk refused, or there is no memory.
        """
        for page in {place // PAGE for place in places} - self._loaded_pages:
            self._take(page)
        slots = self._slots
        return [slots[place] for place in places]

    def _take(self, page: int) -> None:
        begin = page * PAGE
        count = min(PAGE, self._count - begin)
        numbers = big_endian(array("i", self._read(begin, count)))
        if self._memory is None:
            self._memory = mmap.mmap(-1, self._count * numbers.itemsize)
            self._slots = memoryview(self._memory).cast("i")
        self._slots[begin : begin + count] = numbers
        self._loaded_pages.add(page)

    def update(self, values: Mapping[int, int]) -> None:
        """Change slots that `get` has given."""
        slots = self._slots
        for place, value in values.items():
            slots[place] = value

    def close(self) -> None:
        """Give the memory back; what is asked for then is read again."""
        if self._memory is None:
            return
        self._loaded_pages.clear()
        self._slots.release()
        self._slots = memoryview(b"").cast("i")
        self._memory.close()
        self._memory = None
