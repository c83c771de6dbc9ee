"""The timer wheel: two weeks of ticks, each with the position of its units in the timer log.

The file has a slot for every tick of two weeks (with a precision of a second). The slots of ticks that have passed stay
in the file until they are used again; only slots with waiting messages are kept in memory. Changes reach the file with
the next flush; after a crash, the log has those that did not. Plays the part of TimerWheel.
"""

from __future__ import annotations

import heapq
from math import inf
from typing import TYPE_CHECKING, Final

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.timer.units import SLOT_SIZE, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocketpy.seams import Storage

__all__ = ["BLANK_SLOTS", "PATH", "SLOTS", "TimerWheel"]

PATH: Final = "timerwheel"
SLOTS: Final = 7 * 24 * 3600
"""The largest number of ticks ahead; the wheel has twice as many."""
BLANK_SLOTS: Final = 60
"""Ticks that are left free between the furthest one ahead and the furthest one behind."""
_STRETCH: Final = 4096 * SLOT_SIZE


class TimerWheel:
    """The slots of one store that have waiting messages.

    Args:
        storage: The directory.
        slots: The largest number of ticks ahead.

    Attributes:
        slots: These slots, by tick.
        waiting: The number of messages in all of them.
    """

    def __init__(self, storage: Storage, slots: int = SLOTS) -> None:
        self._storage = storage
        self._total = 2 * slots
        self._size = self._total * SLOT_SIZE
        self.slots: dict[int, Slot] = {}
        self.waiting = 0
        self._order: list[int] = []  # a heap of ticks; those of slots that are gone stay until they come up
        self._changed: dict[int, bytes] = {}  # by index in the file

    # --- slots

    def get(self, tick: int) -> Slot | None:
        """The slot of a tick; None if it has no waiting messages."""
        return self.slots.get(tick)

    def has_room(self, tick: int) -> bool:
        """Whether the slot of a tick can be written, because the earlier tick in the same place is over."""
        return tick - self._total not in self.slots and tick + self._total not in self.slots

    def put(self, slot: Slot) -> None:
        """Replace the slot of a tick."""
        before = self.slots.get(slot.tick)
        if before is None:
            heapq.heappush(self._order, slot.tick)
        self.waiting += slot.messages - (0 if before is None else before.messages)
        self.slots[slot.tick] = slot
        self._changed[slot.tick % self._total] = slot.encode()

    def drop(self, tick: int) -> None:
        """Forget a slot whose messages are all done.

        It stays in the file, but is not read again: the next start reads from the oldest slot on. Where an older one is
        left, because the queue of a message in it cannot be made, the file gets an empty slot in its place.
        """
        slot = self.slots.pop(tick, None)
        if slot is None:
            return
        self.waiting -= slot.messages
        oldest = self.oldest()
        if oldest is not None and oldest < tick:
            self._changed[tick % self._total] = bytes(SLOT_SIZE)

    def oldest(self) -> int | None:
        """The earliest tick with waiting messages."""
        order = self._order
        while order and order[0] not in self.slots:
            heapq.heappop(order)
        return order[0] if order else None

    def between(self, begin: int, end: int) -> list[int]:
        """The ticks with waiting messages from `begin` to before `end`, in order."""
        if end - begin < len(self.slots):
            return [tick for tick in range(begin, end) if tick in self.slots]
        return sorted(tick for tick in self.slots if begin <= tick < end)

    # --- the file

    def load(self, begin: int, blank: range, *, is_new: bool = False) -> bool:
        """Read the slots with waiting messages. Returns whether there is a whole file.

        Args:
            begin: The first tick that is not over.
            blank: Ticks that are over although the clock comes to them again: their slots are made empty.
            is_new: Whether the file may be cut off by a crash while it was made.

        Raises:
            OSError: The disk refused.
            StoreCorruptError: The file is not that of a wheel.
        """
        if not self._storage.exists(PATH):
            return False
        file = self._storage.open(PATH)
        try:
            size = file.size()
            if is_new and size < self._size:
                return False
            if size not in (0, self._size):
                raise StoreCorruptError(
                    f"{self._storage.describe(PATH)} has {size} bytes where a timer wheel has {self._size}: put it back"
                    " from a copy, or move it away, and it is rebuilt from the timer log",
                    path=PATH,
                    offset=min(size, self._size),
                )
            for start in range(0, size, _STRETCH):
                self._take(file.pread(_STRETCH, start), start // SLOT_SIZE, begin, blank)
        finally:
            file.close()
        return size > 0

    def empty(self, ticks: range) -> None:
        """Make the slots of ticks that are over empty in a whole file, except those that were put since it was read.

        Raises:
            OSError: The disk refused.
        """
        if not ticks:
            return
        file = self._storage.open(PATH)
        try:
            for start in range(0, file.size(), _STRETCH):
                self._take(file.pread(_STRETCH, start), start // SLOT_SIZE, inf, ticks)
        finally:
            file.close()

    def _take(self, data: bytes, index: int, begin: float, blank: range) -> None:
        if data.count(0) == len(data):
            return
        least = min(begin, blank.start)
        for number, slot in enumerate(Slot.decode_all(data), index):
            if slot[0] < least or slot.tick % self._total != number:
                continue
            if slot.tick in blank:
                self._changed.setdefault(number, bytes(SLOT_SIZE))
            elif slot.tick >= begin:
                self.slots[slot.tick] = slot
                self.waiting += slot.messages
                heapq.heappush(self._order, slot.tick)

    def take_changes(self) -> Mapping[int, bytes]:
        """Take the slots that the file lacks, by their index in it. The caller writes them, or gives them back."""
        changed, self._changed = self._changed, {}
        return changed

    def give_back(self, changes: Mapping[int, bytes]) -> None:
        """Put back changes that could not be written; newer ones win."""
        self._changed = {**changes, **self._changed}

    @property
    def has_changed(self) -> bool:
        """Whether the file lacks any changes."""
        return bool(self._changed)

    def write(self, changes: Mapping[int, bytes]) -> None:
        """Return when the disk has some slots. May be called in a thread.

        Raises:
            OSError: The disk refused.
        """
        if not changes:
            return
        is_new = not self._storage.exists(PATH)
        file = self._storage.open(PATH, create=True)
        try:
            if file.size() != self._size:
                file.truncate(self._size)
            for index, data in _joined(sorted(changes.items())):
                file.pwrite(data, index * SLOT_SIZE)
            file.fdatasync()
        finally:
            file.close()
        if is_new:
            self._storage.sync_dir("")


def _joined(changes: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Join adjacent slots into one write."""
    stretches: list[tuple[int, list[bytes]]] = []
    for index, data in changes:
        if stretches and stretches[-1][0] + len(stretches[-1][1]) == index:
            stretches[-1][1].append(data)
        else:
            stretches.append((index, [data]))
    return [(index, b"".join(parts)) for index, parts in stretches]
