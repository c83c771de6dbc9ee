"""Who has how many of something, and who has most: found without a search, however many there are."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Ranks"]

K = TypeVar("K", bound=Hashable)


class Ranks(Generic[K]):
    """How many each one has.

    Attributes:
        most: How many the one has that has most.
    """

    def __init__(self) -> None:
        self.most = 0
        self._of: dict[K, int] = {}
        self._by_number: dict[int, dict[K, None]] = {}

    def of(self, key: K) -> int:
        """How many one has."""
        return self._of.get(key, 0)

    def greediest(self) -> K:
        """One that has most; there is one."""
        return next(iter(self._by_number[self.most]))

    def add(self, key: K) -> None:
        """One has one more."""
        self._move(key, self.of(key) + 1)

    def remove(self, key: K) -> None:
        """One has one less; it had some."""
        self._move(key, self._of[key] - 1)

    def _move(self, key: K, now: int) -> None:
        before = self._of.pop(key, 0)
        if before:
            others = self._by_number[before]
            del others[key]
            if not others:
                del self._by_number[before]
        if now:
            self._of[key] = now
            self._by_number.setdefault(now, {})[key] = None
        if now > self.most:
            self.most = now
        elif before == self.most and before not in self._by_number:
            self.most = now or max(self._by_number, default=0)
