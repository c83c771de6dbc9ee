"""HandedOut: which messages of a process queue were handed out, and how far the group may commit. Pure.

Without acknowledgements, everything that was handed out may be committed. With them, commits stop before the lowest
offset that was handed out and is not acknowledged.
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
"""Offsets of a queue that are remembered while a consumer neither commits nor acknowledges. If it starts to acknowledge
later, forgotten offsets count as acknowledged."""


class HandedOut:
    """The messages handed out from one process queue.

    Attributes:
        queue: the process queue.
        confirmed: the offset up to which everything had been handed out or filtered out when the last poll began.
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
        """How many messages are handed out, and neither confirmed nor acknowledged."""
        return len(self._open)

    def add(self, messages: Iterable[MessageExt]) -> None:
        """Record messages as handed out, in this order."""
        offsets = [message.queue_offset for message in messages]
        if offsets and not self.is_open:
            # Everything handed out before is confirmed, and messages in between were filtered out.
            self.confirmed = max(self.confirmed, offsets[0])
        self._open.update(offsets)
        if self._in_order and offsets and offsets[0] <= self._in_order[-1]:
            # These were given back, while others behind them were handed out.
            self._in_order = deque(sorted(self._open))
        else:
            self._in_order.extend(offsets)
        self.is_open = True

    def forget_oldest(self) -> None:
        """Keep at most `MOST_REMEMBERED` offsets, for consumers that neither commit nor acknowledge."""
        while len(self._in_order) > MOST_REMEMBERED:
            self._open.discard(self._in_order.popleft())

    def give_back(self, messages: Iterable[MessageExt]) -> None:
        """Forget messages that were handed out and have reached nobody; the process queue holds them again."""
        self._open.difference_update(message.queue_offset for message in messages)
        self.confirmed = min(self.confirmed, self.queue.next_offset)

    def confirm(self) -> int:
        """Everything handed out is done. Returns the offset up to which the group may commit."""
        self._open.clear()
        self._in_order.clear()
        self.is_open = False
        self.confirmed = self.queue.next_offset
        return self.confirmed

    def acknowledge(self, offset: int) -> bool:
        """The message at an offset is done. False if it was not handed out, or was acknowledged before."""
        if offset not in self._open:
            return False
        self._open.discard(offset)
        return True

    @property
    def lowest_open(self) -> int | None:
        """The lowest offset that is handed out and not acknowledged, None if there is none."""
        while self._in_order and self._in_order[0] not in self._open:
            self._in_order.popleft()
        return self._in_order[0] if self._in_order else None

    @property
    def acknowledged(self) -> int:
        """The offset up to which the group may commit if messages are acknowledged."""
        lowest = self.lowest_open
        return self.queue.next_offset if lowest is None else min(lowest, self.queue.next_offset)

    @property
    def span(self) -> int:
        """Approximate distance between the lowest and the highest offset that is handed out and not acknowledged."""
        lowest = self.lowest_open
        return 0 if lowest is None else self._in_order[-1] - lowest
