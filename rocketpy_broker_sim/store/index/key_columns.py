"""Keys that are to be indexed, column by column: files take them by the thousand, and an object each would be too dear.

Numbers stand in arrays of the machine's own byte order. Beside the columns here is what turns the bytes of files, which
are big endian, into such arrays and back.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from struct import pack
from sys import byteorder

__all__ = ["IndexKey", "KeyColumns", "big_endian", "int_array", "long_array", "positions_of_units", "words_of"]

IndexKey = tuple[int, int, int]
"""A key that is to be indexed: hash of ``topic#key``, where its message stands in the log, when that was stored, ms."""

_UNIT_WORDS = 5
"""Words of 32 bits in a unit of a consume queue: position, which takes two, size, and tags code, which takes two."""
_HIGH, _LOW = (1, 0) if byteorder == "little" else (0, 1)


def big_endian(numbers: array[int]) -> array[int]:
    """Numbers out of the bytes of a file, or ready for it."""
    if byteorder == "little":
        numbers.byteswap()
    return numbers


def int_array(numbers: Sequence[int]) -> array[int]:
    """Numbers of 32 bits; in half the time that the array's own constructor takes."""
    return array("i", pack(f"={len(numbers)}i", *numbers))


def long_array(numbers: Sequence[int]) -> array[int]:
    """Numbers of 64 bits."""
    return array("q", pack(f"={len(numbers)}q", *numbers))


def words_of(numbers: array[int]) -> tuple[array[int], array[int]]:
    """The high words and the low words of numbers of 64 bits."""
    words = array("i", numbers.tobytes())
    return words[_HIGH::2], words[_LOW::2]


def positions_of_units(units: bytes) -> array[int]:
    """The positions in units of a consume queue."""
    words = array("i", units)
    found = array("i", bytes(8 * (len(words) // _UNIT_WORDS)))
    found[0::2] = words[0::_UNIT_WORDS]
    found[1::2] = words[1::_UNIT_WORDS]
    return big_endian(array("q", found.tobytes()))


class KeyColumns:
    """Keys in the order of the log.

    Args:
        hashes: Their hashes.
        positions: Where the message of each of them stands in the log.
        times: When that was stored, ms.
    """

    __slots__ = ("hashes", "positions", "times")

    def __init__(self, hashes: array[int], positions: array[int], times: array[int]) -> None:
        self.hashes = hashes
        self.positions = positions
        self.times = times

    @classmethod
    def of(cls, keys: Sequence[IndexKey] = ()) -> KeyColumns:
        """Those of keys that were gathered one by one."""
        if not keys:
            return cls(array("i"), array("q"), array("q"))
        hashes, positions, times = zip(*keys, strict=True)
        return cls(int_array(hashes), long_array(positions), long_array(times))

    @classmethod
    def of_messages(cls, hashes: Sequence[Sequence[int]], positions: Iterable[int], time: int) -> KeyColumns:
        """Those of messages with any number of keys, which were stored at the same time."""
        found = int_array(list(chain.from_iterable(hashes)))
        each = [at for own, at in zip(hashes, positions, strict=True) for at in repeat(at, len(own))]
        return cls(found, long_array(each), array("q", [time]) * len(found))

    @classmethod
    def side_by_side(cls, columns: Sequence[array[int]], positions: array[int], time: int) -> KeyColumns:
        """Those of messages with the same number of keys, which were stored at the same time.

        Args:
            columns: The first hash of each message, the second of each, and so on.
            positions: Where the messages stand.
            time: When they were stored.
        """
        step, count = len(columns), len(columns) * len(positions)
        hashes, places = array("i", bytes(4 * count)), array("q", bytes(8 * count))
        for number, column in enumerate(columns):
            hashes[number::step] = column
            places[number::step] = positions
        return cls(hashes, places, array("q", [time]) * count)

    def __len__(self) -> int:
        """How many keys."""
        return len(self.hashes)

    def __iter__(self) -> Iterator[IndexKey]:
        """The keys one by one."""
        return zip(self.hashes, self.positions, self.times, strict=True)

    def __getitem__(self, part: slice) -> KeyColumns:
        """Some of them."""
        return KeyColumns(self.hashes[part], self.positions[part], self.times[part])

    def extend(self, others: KeyColumns) -> None:
        """Add those of later messages."""
        self.hashes += others.hashes
        self.positions += others.positions
        self.times += others.times
