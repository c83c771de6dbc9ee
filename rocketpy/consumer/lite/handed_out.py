"""HandedOut: of one process queue, what was handed out and how far the group may commit. Pure: it never waits.

Without acknowledgements, everything that was handed out may be committed. With them, nothing from the lowest offset on
that was handed out and is not acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.message import MessageExt

__all__ = ["MOST_REMEMBERED", "HandedOut"]

MOST_REMEMBERED = 65_536
"""Offsets that are remembered of a queue by a consumer that neither commits nor acknowledges. Of one that does begin to
acknowledge after that, those before them count as acknowledged."""


class HandedOut:
    """What was handed out of one process queue.

    Attributes:
        queue: the process queue.
        confirmed: up to where everything was handed out before the last poll.
        is_open: whether anything was handed out since.
    """

    __slots__ = ("_in_order", "_open", "confirmed", "is_open", "queue")

    def __init__(self, queue: ProcessQueue) -> None:
        self.queue = queue
        self.confirmed = queue.next_offset
        self.is_open = False
        self._open: set[int] = set()
        self._in_order: deque[int] = deque()

    def __len__(self) -> int:
        """Messages that are handed out, and neither confirmed nor acknowledged."""
        return len(self._open)

    def add(self, messages: Iterable[MessageExt]) -> None:
        """These were handed out, in order."""
        offsets = [message.queue_offset for message in messages]
        self._open.update(offsets)
        if self._in_order and offsets and offsets[0] <= self._in_order[-1]:
            # Given back a moment ago, while what lies behind was handed out.
            self._in_order = deque(sorted(self._open))
        else:
            self._in_order.extend(offsets)
        self.is_open = True

    def forget_oldest(self) -> None:
        """Where nobody commits or acknowledges: remember no more than is good."""
        while len(self._in_order) > MOST_REMEMBERED:
            self._open.discard(self._in_order.popleft())

    def give_back(self, messages: Iterable[MessageExt]) -> None:
        """These were handed out and have reached nobody; the queue holds them again."""
        self._open.difference_update(message.queue_offset for message in messages)
        self.confirmed = min(self.confirmed, self.queue.next_offset)

    def confirm(self) -> int:
        """All that was handed out is dealt with. Returns the offset up to which the group may commit."""
        self._open.clear()
        self._in_order.clear()
        self.is_open = False
        self.confirmed = self.queue.next_offset
        return self.confirmed

    def acknowledge(self, offset: int) -> bool:
        """One message is dealt with. False when it was not handed out, or was acknowledged before."""
        if offset not in self._open:
            return False
        self._open.discard(offset)
        return True

    @property
    def lowest_open(self) -> int | None:
        """The lowest offset that is handed out and not acknowledged, None when there is none."""
        while self._in_order and self._in_order[0] not in self._open:
            self._in_order.popleft()
        return self._in_order[0] if self._in_order else None

    @property
    def acknowledged(self) -> int:
        """The offset up to which the group may commit where messages are acknowledged."""
        lowest = self.lowest_open
        return self.queue.next_offset if lowest is None else min(lowest, self.queue.next_offset)

    @property
    def span(self) -> int:
        """Distance between the lowest and the highest offset that is handed out and not acknowledged, about."""
        lowest = self.lowest_open
        return 0 if lowest is None else self._in_order[-1] - lowest
