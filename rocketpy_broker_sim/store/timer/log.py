"""The timer log: consecutive units of 52 bytes, in files of one size.

A unit never crosses files: where a unit and a filler of 16 bytes do not fit, the rest of a file is a filler. So the
positions of all units follow from the size of the files. Units are collected at their final positions, and written with
one write for each file. Plays the part of TimerLog.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue
from rocketpy_broker_sim.store.timer.units import BLANK_SIZE, UNIT_SIZE, TimerUnit, encode_blank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocketpy.seams import Storage

__all__ = ["FOLDER", "TimerLog"]

FOLDER = "timerlog"
_STRETCH = 1024 * UNIT_SIZE
"""Bytes that are read at a time."""


class TimerLog:
    """The units of one store.

    Args:
        storage: The directory.
        file_size: Bytes of every file.

    Attributes:
        row: The files.
        end: The position of the next unit; everything before it is written.
        flushed: The position up to which the disk has the units.
        units_end: The end of the units of a file, counted from its beginning.
    """

    def __init__(self, storage: Storage, file_size: int) -> None:
        self.row = MappedFileQueue(storage, FOLDER, file_size)
        self.end = 0
        self.flushed = 0
        self.units_end = (file_size - BLANK_SIZE) // UNIT_SIZE * UNIT_SIZE
        self._gathered: list[tuple[int, bytes]] = []
        self._next = 0
        self._is_doubtful = False  # whether a flush failed: what stands there is written once more
        self._window = (0, b"")  # what was read last, and where it begins

    @property
    def start(self) -> int:
        """Position of the oldest unit that is kept."""
        return self.row.start

    def reset(self, end: int, flushed: int) -> None:
        """Continue writing at a position."""
        self.end = self._next = self._settled(end)
        self.flushed = min(flushed, self.end)
        self._gathered = []
        self._window = (0, b"")

    def _settled(self, position: int) -> int:
        """The position itself, or the beginning of the next file if no unit fits there."""
        size = self.row.file_size
        return position if position % size < self.units_end else position - position % size + size

    def unit_at(self, position: int) -> int:
        """The beginning of the unit that contains a position."""
        at = position % self.row.file_size
        return position - (at % UNIT_SIZE if at < self.units_end else 0)

    # --- writing

    def gather(self, unit: TimerUnit) -> int:
        """Take a unit for the next `commit`. Returns its position."""
        position = self._next
        self._gathered.append((position, unit.encode()))
        self._next = self._settled(position + UNIT_SIZE)
        return position

    def commit(self) -> None:
        """Write the collected units.

        Raises:
            OSError: The disk refused; none of them counts, and their positions will be used again.
        """
        gathered, self._gathered = self._gathered, []
        try:
            for start, data in self._stretches(gathered):
                file = self.row.find_or_create(start)
                file.write(data, start - file.start)
        except OSError:
            self._next = self.end
            self._window = (0, b"")
            raise
        self.end = self._next

    def _stretches(self, gathered: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The pieces that are written at a time: the units of one file, and the filler of the file before."""
        size = self.row.file_size
        for start, group in groupby(gathered, lambda each: each[0] - each[0] % size):
            units = list(group)
            begin = units[0][0]
            if begin == start and self.row.find(start - 1) is not None:
                yield start - size + self.units_end, encode_blank(size - self.units_end)
            yield begin, b"".join(data for _, data in units)

    # --- reading

    def read(self, position: int) -> TimerUnit | None:
        """The unit at a position; None if there is none.

        The bytes before it are kept for the next call, because the units of a slot are read from the last to the first.

        Raises:
            OSError: The disk refused.
        """
        if not self.start <= position <= self.end - UNIT_SIZE or position % self.row.file_size % UNIT_SIZE:
            return None
        begin, data = self._window
        if not begin <= position <= begin + len(data) - UNIT_SIZE:
            file = self.row.find(position)
            if file is None:
                return None
            at = position - file.start
            begin = max(0, at + UNIT_SIZE - _STRETCH)
            data = file.read(begin, at + UNIT_SIZE - begin)
            begin += file.start
            self._window = (begin, data)
        return TimerUnit.decode(data, position - begin) if position - begin + UNIT_SIZE <= len(data) else None

    def scan(self, begin: int, end: int | None = None) -> Iterator[tuple[int, TimerUnit | None]]:
        """The units from a position on, with their positions. The first position without a unit comes last, with None.

        Args:
            begin: The position of a unit.
            end: Where to stop; None means the end of the files.

        Raises:
            OSError: The disk refused.
        """
        position = self._settled(begin)
        while end is None or position < end:
            file = self.row.find(position)
            if file is None:
                if position < self.row.end:
                    yield position, None
                return
            at = position - file.start
            data = file.read(at, min(_STRETCH, self.units_end - at))
            for here in range(0, len(data) - UNIT_SIZE + 1, UNIT_SIZE):
                if end is not None and position + here >= end:
                    return
                unit = TimerUnit.decode(data, here)
                yield position + here, unit
                if unit is None:
                    return
            position = self._settled(position + len(data))

    # --- the disk

    def flush(self, end: int) -> None:
        """Return when the disk has the units up to a position. May be called in a thread.

        Raises:
            OSError: The disk failed; the next flush writes and flushes all of it again.
        """
        if end <= self.flushed and not self._is_doubtful:
            return
        begin = self.flushed
        if self._is_doubtful:
            self.row.write_again(begin, end)
        try:
            self.row.flush(begin, end, apart=True)
        except OSError:
            self._is_doubtful = True
            raise
        self._is_doubtful = False
        self.flushed = max(end, begin)

    def close(self) -> None:
        """Close the files."""
        self.row.close()
