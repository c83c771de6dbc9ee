"""Keys that are to be indexed, column by column: files take many at a time, and an object each would be too dear."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from rocketpy.wire.words import int_array, long_array

__all__ = ["IndexKey", "KeyColumns"]

IndexKey = tuple[int, int, int]
"""A key that is to be indexed: hash of ``topic#key``, where its message stands in the log, when that was stored, ms."""


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
