"""Which row a message came from, when rows between were left out. Pure.

Remembers where rows were left out, not every row: sixteen bytes for each run of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

__all__ = ["RowNumbers"]


class RowNumbers:
    """Turns positions of messages, from 0, into numbers of rows, from 1.

    Attributes:
        left_out: how many rows have no message.
    """

    def __init__(self) -> None:
        self._positions = array("q")
        self._before = array("q")
        self.left_out = 0

    def leave_out(self, row: int) -> None:
        """Say that a row has no message; in rising order."""
        position = row - 1 - self.left_out
        self.left_out += 1
        if self._positions and self._positions[-1] == position:
            self._before[-1] = self.left_out
        else:
            self._positions.append(position)
            self._before.append(self.left_out)

    def row_of(self, position: int) -> int:
        """The number of the row of a message."""
        run = bisect_right(self._positions, position) - 1
        return position + 1 + (self._before[run] if run >= 0 else 0)
