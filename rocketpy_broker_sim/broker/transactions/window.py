"""HalfWindow: which half messages have ended, of those that are still checked. Pure.

The window begins at the offset before which the half topic is done: everything before it has ended, was discarded, or
has a later copy. From there on, it has one byte for each half message. The broker decides by the window alone, so that
a transaction which ends twice, or through an older copy of its half message, is committed once. The op topic is read
only when the broker starts. Plays the part of removeMap in TransactionalMessageServiceImpl.
"""

from __future__ import annotations

import enum

__all__ = ["HalfWindow", "Key", "Mark"]

Key = tuple[str, str]
"""Producer group of a transaction and id of its message."""

MOST_SUCCESSORS = 100_000
"""The largest number of transactions whose latest copy is known."""
_LONGEST_KEY = 512
"""The largest number of characters in the key of such a transaction."""


class Mark(enum.IntEnum):
    """The state of a half message."""

    OPEN = 0
    COMMITTED = 1
    ROLLED_BACK = 2
    ENDED = 3
    """Committed or rolled back, in an earlier run."""
    MOVED = 4
    """Replaced by a copy."""
    DISCARDED = 5
    """Moved to the topic for discarded half messages."""
    GONE = 6
    """Before the window."""


class HalfWindow:
    """The half messages of one broker.

    Attributes:
        base: The first offset of the window.
    """

    def __init__(self) -> None:
        self.base = 0
        self._marks = bytearray()
        self._successors: dict[Key, int] = {}

    def __len__(self) -> int:
        """The number of half messages in the window, up to the last one that is not open."""
        return len(self._marks)

    def start(self, base: int) -> None:
        """Begin at an offset, with all half messages open."""
        self.base = base
        self._marks = bytearray()
        self._successors.clear()

    def mark(self, offset: int, mark: Mark) -> None:
        """Set the state of a half message; before the window this does nothing."""
        index = offset - self.base
        if index < 0:
            return
        if index >= len(self._marks):
            self._marks.extend(bytes(index + 1 - len(self._marks)))
        self._marks[index] = mark

    def state(self, offset: int) -> Mark:
        """The state of a half message."""
        index = offset - self.base
        if index < 0:
            return Mark.GONE
        return Mark(self._marks[index]) if index < len(self._marks) else Mark.OPEN

    def next_open(self, offset: int) -> int:
        """The first open offset from this one on; its half message need not exist yet."""
        index = max(0, offset - self.base)
        found = self._marks.find(0, index) if index < len(self._marks) else index
        return self.base + (len(self._marks) if found < 0 else found)

    def advance(self, base: int) -> None:
        """Move the beginning of the window forward: everything before it is done."""
        if base > self.base:
            del self._marks[: base - self.base]
            self.base = base

    # --- copies --------------------------------------------------------------------------------------------

    def note_copy(self, key: Key, offset: int | None) -> int | None:
        """Set the offset of the latest copy of a transaction; None means that there is no copy.

        Returns:
            The offset before, with which the call can be undone.
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
        """The offset of the latest half message of a transaction, given that of any copy.

        None if it has ended, as far as is known, or was discarded.
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
        """Forget the copy of a transaction that has ended. Returns its offset; None if the half message was no copy."""
        return self._successors.pop(key) if self._successors.get(key) == offset else None
