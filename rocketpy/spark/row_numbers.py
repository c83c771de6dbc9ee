"""Converts positions of messages to row numbers, if some rows have no message. Pure.

It keeps one bit for each row, up to the last row without a message: 12 MB for a hundred million rows.
"""

from __future__ import annotations

__all__ = ["RowNumbers"]

_BLOCK = 4096
"""Number of bytes whose bits are counted in one step."""


class RowNumbers:
    """Converts positions of messages, from 0, to row numbers, from 1.

    Attributes:
        left_out: the number of rows without a message.
    """

    def __init__(self) -> None:
        self._bits = bytearray()
        self.left_out = 0

    def leave_out(self, row: int) -> None:
        """Record that a row has no message. Rows must come in ascending order."""
        place, bit = divmod(row - 1, 8)
        missing = place + 1 - len(self._bits)
        if missing > 0:
            self._bits.extend(bytes(missing))
        self._bits[place] |= 1 << bit
        self.left_out += 1

    def row_of(self, position: int) -> int:
        """The number of the row of a message."""
        bits, start = self._bits, 0
        while start < len(bits):
            block = bits[start : start + _BLOCK]
            kept = 8 * len(block) - int.from_bytes(block, "little").bit_count()
            if position < kept:
                return 8 * start + self._within(block, position)
            position -= kept
            start += len(block)
        return 8 * len(bits) + position + 1

    @staticmethod
    def _within(block: bytearray, position: int) -> int:
        """The row number within the block that contains the message."""
        kept = (row for row in range(8 * len(block)) if not block[row >> 3] >> (row & 7) & 1)
        return next(row for count, row in enumerate(kept) if count == position) + 1
