"""Changes: what the running turn has changed in memory on condition that it is written.

Who changes something that a message in the log stands for adds what to do once the message is written, and what to do
when the disk refuses it. The turn settles all of them after its write, before any other processor runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Changes"]


class _Change(NamedTuple):
    written: Callable[[], object]
    """Confirms it, once the turn has been written."""
    refused: Callable[[], object]
    """Undoes it, when the disk has refused the turn."""


class Changes:
    """The changes of one broker that are not settled yet, in their order."""

    def __init__(self) -> None:
        self._unsure: deque[_Change] = deque()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._unsure)

    def add(self, written: Callable[[], object], refused: Callable[[], object]) -> None:
        """Call one of two plain functions when the turn has been written, or was refused."""
        self._unsure.append(_Change(written, refused))

    def settle(self, failure: Exception | None) -> None:
        """The turn has been written, or was refused: confirm the changes, or undo them, the last one first."""
        while self._unsure:
            change = self._unsure.popleft() if failure is None else self._unsure.pop()
            (change.written if failure is None else change.refused)()
