"""What is about to be delivered: the slots of this second and the next, opened, with their messages in order. Pure.

A slot is opened a little before its time and closed after it; meanwhile what is added to it comes here too.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Final, NamedTuple

__all__ = ["LATE", "OpenSlot", "OpenSlots", "Waiting"]

LATE: Final = 16


class Waiting(NamedTuple):
    """A message of an open slot.

    Attributes:
        due: When it is delivered, by the monotonic clock, ms.
        number: Tells apart those that are due at once; the first one that came is the first.
        tick: Its slot.
        kind: As its unit says; with LATE where what recalls it may still stand in the timer's topic.
        written_ms: When it was put into the slot; in its properties afterwards.
        position: Where its record stands.
        size: Bytes of the record.
        topic_hash: Of the topic that it is for.
    """

    due: float
    number: int
    tick: int
    kind: int
    written_ms: int
    position: int
    size: int
    topic_hash: int


class OpenSlot:
    """A slot whose time has come or is about to.

    Attributes:
        left: Messages that are still to be delivered.
        is_read: Whether all of it is in memory; nothing of it is delivered before.
        early: Messages that came while it was read.
        recalled: What messages of it are recalled, with the topic that each is for.
        found: Which of those were found and left out.
        recalls: The messages that recall: position, size and topic hash of each.
        last_done: Position and size of the message that was dealt with last; None when none was.
        barrier: The end of the timer's queue when its time came: what recalls one of it stands before. None before.
    """

    __slots__ = ("barrier", "early", "found", "is_read", "last_done", "left", "recalled", "recalls")

    def __init__(self) -> None:
        self.left = 0
        self.is_read = False
        self.early: list[Waiting] = []
        self.recalled: dict[str, str] = {}
        self.found: set[str] = set()
        self.recalls: list[tuple[int, int, int]] = []
        self.last_done: tuple[int, int] | None = None
        self.barrier: int | None = None


class OpenSlots:
    """All open slots, and the messages in them by when they are due.

    Attributes:
        slots: By tick.
        complete: The ticks of slots of which nothing is left, for now.
    """

    def __init__(self) -> None:
        self.slots: dict[int, OpenSlot] = {}
        self.complete: set[int] = set()
        self._heap: list[Waiting] = []
        self._numbers = count()

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self._heap)

    def number(self) -> int:
        """The number of the next message."""
        return next(self._numbers)

    def open(self, tick: int) -> OpenSlot:
        """Open a slot."""
        slot = self.slots[tick] = OpenSlot()
        return slot

    def add(self, waiting: Waiting) -> None:
        """A message of an open slot."""
        slot = self.slots[waiting.tick]
        slot.left += 1
        self.complete.discard(waiting.tick)
        if slot.is_read:
            heapq.heappush(self._heap, waiting)
        else:
            slot.early.append(waiting)

    def finish_reading(self, tick: int) -> None:
        """All of a slot is there: its messages may be delivered."""
        slot = self.slots[tick]
        slot.is_read = True
        for waiting in slot.early:
            heapq.heappush(self._heap, waiting)
        slot.early = []
        if not slot.left:
            self.complete.add(tick)

    def first_due(self) -> float | None:
        """When the first message of all is due; None without one."""
        return self._heap[0].due if self._heap else None

    def take_due(self, now: float) -> Waiting | None:
        """Take the first message, when it is due."""
        return heapq.heappop(self._heap) if self._heap and self._heap[0].due <= now else None

    def put_back(self, waiting: Waiting) -> None:
        """A message that was taken could not be delivered."""
        heapq.heappush(self._heap, waiting)

    def done(self, waiting: Waiting) -> None:
        """A message that was taken is dealt with."""
        slot = self.slots[waiting.tick]
        slot.left -= 1
        slot.last_done = waiting.position, waiting.size
        if not slot.left:
            self.complete.add(waiting.tick)

    def close(self, tick: int) -> OpenSlot:
        """Close a slot of which nothing is left."""
        self.complete.discard(tick)
        return self.slots.pop(tick)

    def left_of(self, tick: int) -> list[Waiting]:
        """The messages of a slot that are still to be delivered, in their order."""
        return sorted(waiting for waiting in self._heap if waiting.tick == tick)
