"""HalfWindow: which half messages have ended, of those that are still looked at. Pure.

It begins at the offset up to which the half topic is done with: everything before has ended, was set aside, or has a
copy further on. What is known of the others is a byte for each. The broker alone decides by it, so that a transaction
which ends twice, or through an older copy of its half message, is committed once. The topic of the ends is read when
the broker starts, and is otherwise only written: for the next start, and for Apache's broker. Plays the part of
removeMap in TransactionalMessageServiceImpl.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

__all__ = ["HalfWindow", "Key", "Mark"]

Key = tuple[str, str]
"""Producer group of a transaction and id of its message."""

MOST_SUCCESSORS = 100_000
"""Transactions with a copy whose earlier half messages are known."""
_LONGEST_KEY = 512
"""Characters of group and id of a transaction that is among them."""


class Mark(enum.IntEnum):
    """What is known of a half message."""

    OPEN = 0
    COMMITTED = 1
    ROLLED_BACK = 2
    ENDED = 3
    """One or the other, in an earlier run."""
    MOVED = 4
    """A copy has taken its place."""
    DISCARDED = 5
    """It was set aside."""
    GONE = 6
    """It stands before the window."""


class HalfWindow:
    """The half messages of one broker.

    Attributes:
        base: The first offset that is still looked at.
    """

    def __init__(self) -> None:
        self.base = 0
        self._marks = bytearray()
        self._successors: dict[Key, int] = {}

    def __len__(self) -> int:
        """Half messages of which more is known than that they are open, up to the last of them."""
        return len(self._marks)

    def start(self, base: int) -> None:
        """Begin at an offset, knowing nothing."""
        self.base = base
        self._marks = bytearray()
        self._successors.clear()

    def mark(self, offset: int, mark: Mark) -> None:
        """Note what became of a half message; before the window nothing is noted."""
        index = offset - self.base
        if index < 0:
            return
        if index >= len(self._marks):
            self._marks.extend(bytes(index + 1 - len(self._marks)))
        self._marks[index] = mark

    def state(self, offset: int) -> Mark:
        """What is known of a half message."""
        index = offset - self.base
        if index < 0:
            return Mark.GONE
        return Mark(self._marks[index]) if index < len(self._marks) else Mark.OPEN

    def next_open(self, offset: int) -> int:
        """The first offset from this one on of which nothing is known; such a message need not exist yet."""
        index = max(0, offset - self.base)
        found = self._marks.find(0, index) if index < len(self._marks) else index
        return self.base + (len(self._marks) if found < 0 else found)

    def open_offsets(self, end: int) -> Iterator[int]:
        """The offsets before `end` of which nothing is known."""
        offset = self.next_open(self.base)
        while offset < end:
            yield offset
            offset = self.next_open(offset + 1)

    def advance(self, base: int) -> None:
        """Everything before an offset is done with."""
        if base > self.base:
            del self._marks[: base - self.base]
            self.base = base

    # --- copies --------------------------------------------------------------------------------------------

    def note_copy(self, key: Key, offset: int | None) -> int | None:
        """The half message of a transaction is the copy at an offset now, whichever of its copies somebody names.

        Returns:
            Where the copy stood that was known before; given back, it is known again. None stands for no copy.
        """
        before = self._successors.get(key)
        if offset is None:
            self._successors.pop(key, None)
        elif before is not None or self._has_room(key):
            self._successors[key] = offset
        return before

    def _has_room(self, key: Key) -> bool:
        return bool(key[1]) and len(key[0]) + len(key[1]) <= _LONGEST_KEY and len(self._successors) < MOST_SUCCESSORS

    def live(self, key: Key, offset: int) -> int | None:
        """Where the half message of a transaction stands, of which somebody names the copy at `offset`.

        None when it has ended as far as is known, or was set aside.
        """
        state = self.state(offset)
        if state is Mark.OPEN:
            return offset
        if state in (Mark.MOVED, Mark.GONE):
            found = self._successors.get(key)
            if found is not None and self.state(found) is Mark.OPEN:
                return found
        return None

    def forget_copy(self, key: Key, offset: int) -> int | None:
        """The half message of a transaction at an offset has ended. Returns that offset if it was a copy."""
        return self._successors.pop(key) if self._successors.get(key) == offset else None
