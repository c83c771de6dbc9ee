"""Messages that are delivered soon: the open slots of this second and the next, with their messages in order. Pure.

A slot is opened shortly before its time and closed after it; messages that are added to it meanwhile are kept here too.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Final, NamedTuple

__all__ = ["LATE", "DueMessage", "OpenSlot", "OpenSlots"]

LATE: Final = 16


class DueMessage(NamedTuple):
    """A message of an open slot.

    Attributes:
        due: When it is delivered, by the monotonic clock, ms.
        number: Orders messages that are due at the same time by their arrival.
        tick: Its slot.
        kind: As in its unit; with LATE if a recall of it may still be in the timer's topic.
        written_ms: When it was put into the slot; in its properties afterwards.
        position: The position of its record.
        size: Bytes of the record.
        topic_hash: The hash of its topic.
        was_put_off: Whether its time was another one before, when its queue could not be made.
    """

    due: float
    number: int
    tick: int
    kind: int
    written_ms: int
    position: int
    size: int
    topic_hash: int
    was_put_off: bool = False


class OpenSlot:
    """A slot whose time has come, or comes soon.

    Attributes:
        left: The number of messages still to be delivered.
        is_read: Whether all of it is in memory; no message is delivered before that.
        early: Messages that arrived while it was being read.
        recalled: The keys of recalled messages, with their topics.
        found: The keys of recalled messages that were found and skipped.
        recalls: The recalls: position, size and topic hash of each.
        last_done: Position and size of the last message that is done; None if there is none.
        barrier: The end of the timer's queue when the time of the slot came; recalls of its messages are before it.
            None until then.
    """

    __slots__ = ("barrier", "early", "found", "is_read", "last_done", "left", "recalled", "recalls")

    def __init__(self) -> None:
        self.left = 0
        self.is_read = False
        self.early: list[DueMessage] = []
        self.recalled: dict[str, str] = {}
        self.found: set[str] = set()
        self.recalls: list[tuple[int, int, int]] = []
        self.last_done: tuple[int, int] | None = None
        self.barrier: int | None = None


class OpenSlots:
    """All open slots, and their messages in the order in which they are due.

    Attributes:
        slots: The open slots, by tick.
        complete: The ticks of slots that have no messages left, for now.
    """

    def __init__(self) -> None:
        self.slots: dict[int, OpenSlot] = {}
        self.complete: set[int] = set()
        self._heap: list[DueMessage] = []
        self._numbers = count()

    def __len__(self) -> int:
        """The number of messages."""
        return len(self._heap)

    def number(self) -> int:
        """The number of the next message."""
        return next(self._numbers)

    def open(self, tick: int) -> OpenSlot:
        """Open a slot."""
        slot = self.slots[tick] = OpenSlot()
        return slot

    def add(self, waiting: DueMessage) -> None:
        """Add a message of an open slot."""
        slot = self.slots[waiting.tick]
        slot.left += 1
        self.complete.discard(waiting.tick)
        if slot.is_read:
            heapq.heappush(self._heap, waiting)
        else:
            slot.early.append(waiting)

    def finish_reading(self, tick: int) -> None:
        """Allow the messages of a slot to be delivered, because all of them are in memory."""
        slot = self.slots[tick]
        slot.is_read = True
        for waiting in slot.early:
            heapq.heappush(self._heap, waiting)
        slot.early = []
        if not slot.left:
            self.complete.add(tick)

    def first_due(self) -> float | None:
        """When the first message of all is due; None if there is none."""
        return self._heap[0].due if self._heap else None

    def take_due(self, now: float) -> DueMessage | None:
        """Take the first message if it is due."""
        return heapq.heappop(self._heap) if self._heap and self._heap[0].due <= now else None

    def put_back(self, waiting: DueMessage) -> None:
        """Put back a message that could not be delivered."""
        heapq.heappush(self._heap, waiting)

    def put_off(self, waiting: DueMessage, due: float) -> None:
        """Put back a message to be delivered later, behind all others of that time."""
        self.put_back(waiting._replace(due=due, number=self.number(), was_put_off=True))

    def done(self, waiting: DueMessage) -> None:
        """Count a message that was taken as done."""
        slot = self.slots[waiting.tick]
        slot.left -= 1
        slot.last_done = waiting.position, waiting.size
        if not slot.left:
            self.complete.add(waiting.tick)

    def close(self, tick: int) -> OpenSlot:
        """Close a slot that has no messages left."""
        self.complete.discard(tick)
        return self.slots.pop(tick)

    def left_of(self, tick: int) -> list[DueMessage]:
        """The messages of a slot that are still to be delivered, in order."""
        return sorted(waiting for waiting in self._heap if waiting.tick == tick)
