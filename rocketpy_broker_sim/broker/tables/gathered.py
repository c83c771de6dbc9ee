"""Entries that one request puts into a table: looked at a few at a time, and put there all together.

Has no counterpart in Java, whose tables have no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

__all__ = ["Gathered"]

_Entry = TypeVar("_Entry")


class Gathered(Generic[_Entry]):
    """What is to be put into a table, and how much the table will have grown by then.

    Args:
        table: the table by name, as it is at any time.
        size_of: the bytes that an entry is reckoned to take.

    Attributes:
        entries: The entries by name; of several with one name the last.
    """

    def __init__(self, table: Mapping[str, _Entry], size_of: Callable[[_Entry], int]) -> None:
        self.entries: dict[str, _Entry] = {}
        self._table, self._size_of = table, size_of
        self._replaced: dict[str, _Entry] = {}
        self._size = 0

    def add(self, name: str, entry: _Entry) -> None:
        """Take one more."""
        former = self.entries.get(name)
        if former is None and (former := self._table.get(name)) is not None:
            self._replaced[name] = former
        self._size += self._size_of(entry) - (0 if former is None else self._size_of(former))
        self.entries[name] = entry

    def growth(self, *, is_disturbed: bool) -> tuple[int, int]:
        """By how many entries and how many bytes the table will grow.

        It is called in one turn, however many entries there are: only what has been replaced since is measured again.

        Args:
            is_disturbed: whether the table has been changed since the first entry was added.
        """
        if not is_disturbed:
            return len(self.entries) - len(self._replaced), self._size
        known, size = 0, self._size
        for name in self.entries:
            before, now = self._replaced.get(name), self._table.get(name)
            known += now is not None
            if before is not now:
                size += (0 if before is None else self._size_of(before)) - (0 if now is None else self._size_of(now))
        return len(self.entries) - known, size
