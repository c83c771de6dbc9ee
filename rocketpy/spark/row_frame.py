"""The bodies and encoded properties of rows that gather for one frame, with the numbers of the rows."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["RowFrame"]


class RowFrame:
    """A frame that gathers.

    Args:
        most: how many messages fit.
        largest: how many bytes of bodies fit.
    """

    def __init__(self, most: int, largest: int) -> None:
        self._most = most
        self._largest = largest
        self._bodies: list[bytes] = []
        self._properties: list[str] = []
        self._numbers: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        """The number of messages that have gathered."""
        return len(self._bodies)

    @property
    def room(self) -> int:
        """How many more messages fit, as far as their size allows."""
        return self._most - len(self._bodies)

    def add(self, body: bytes, properties: str, number: int) -> bool:
        """Add the message of a row. Returns whether the frame is full, or would be with another as large."""
        self._bodies.append(body)
        self._properties.append(properties)
        self._numbers.append(number)
        self._size += len(body)
        return len(self._bodies) >= self._most or self._size + len(body) > self._largest

    def takes_all(self, bodies: Sequence[bytes]) -> bool:
        """Whether so many fit, and would if another as large as the largest of them followed."""
        sizes = list(map(len, bodies))
        return len(sizes) <= self.room and self._size + sum(sizes) + max(sizes) <= self._largest

    def add_all(self, bodies: Sequence[bytes], properties: Sequence[str], first: int) -> None:
        """Add the messages of rows that follow each other; `first` is the number of the first."""
        self._numbers += range(first, first + len(bodies))
        self._bodies += bodies
        self._properties += properties
        self._size += sum(map(len, bodies))

    def take(self) -> tuple[list[bytes], list[str], list[int]]:
        """Bodies, encoded properties and numbers of rows; the frame is empty afterwards."""
        taken = self._bodies, self._properties, self._numbers
        self._bodies, self._properties, self._numbers, self._size = [], [], [], 0
        return taken
