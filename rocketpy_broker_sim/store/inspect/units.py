"""Reading consume queues as they lie there, unit by unit, thousands of queues with little memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.queue.consume_queue import FILLER_SIZE, UNIT

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout
    from rocketpy_broker_sim.store.inspect.rows import FileRow

__all__ = ["EMPTY", "QueueUnits", "Unit", "is_filler"]

Unit = tuple[int, int, int]
"""Position, size and tags code."""
EMPTY: Unit = (0, 0, 0)
WINDOW = 200 * UNIT_SIZE
STEP = 3200 * UNIT_SIZE
MAX_WINDOWS = 4096


def is_filler(unit: Unit) -> bool:
    """Whether a unit only stands for an offset whose message was gone before the queue began."""
    return unit[0] == 0 and unit[1] == FILLER_SIZE


class QueueUnits:
    """The units of all queues of a store."""

    def __init__(self, layout: StoreLayout) -> None:
        self._queues = layout.queues
        self._windows: OrderedDict[QueueKey, tuple[int, bytes]] = OrderedDict()

    def get(self, key: QueueKey, offset: int) -> Unit | None:
        """The unit at an offset, whatever stands before it; None where none was written."""
        row = self._queues.get(key)
        at = offset * UNIT_SIZE
        if row is None or not 0 <= at < 1 << 62:
            return None
        window = self._windows.get(key)
        if window is None or not window[0] <= at < window[0] + len(window[1]):
            window = self._load(key, row, at)
            if window is None:
                return None
        unit: Unit = UNIT.unpack_from(window[1], at - window[0])
        return unit if unit[1] > 0 and unit[0] >= 0 else None

    def _load(self, key: QueueKey, row: FileRow, at: int) -> tuple[int, bytes] | None:
        data = row.read(at, WINDOW)
        data = data[: len(data) - len(data) % UNIT_SIZE]
        self._windows.pop(key, None)
        if not data:
            return None
        if len(self._windows) >= MAX_WINDOWS:
            self._windows.popitem(last=False)
        self._windows[key] = (at, data)
        return at, data

    def end(self, key: QueueKey) -> int:
        """Offset behind the last unit: in the last file that has any, those before the first empty one."""
        row = self._queues[key]
        for file in reversed(row.files):
            count = _written(row, file.start, file.size)
            if count:
                return file.start // UNIT_SIZE + count
        return row.start // UNIT_SIZE

    def begin(self, key: QueueKey) -> int:
        """Offset of the first unit that is there, filler or not."""
        return self._queues[key].start // UNIT_SIZE

    def walk(self, key: QueueKey, begin: int, end: int) -> Iterator[tuple[int, Unit]]:
        """(offset, unit) from one offset to another, empty ones included; files that are missing are passed over."""
        row = self._queues[key]
        for file in row.files:
            first = max(begin, -(-file.start // UNIT_SIZE))
            last = min(end, file.end // UNIT_SIZE)
            for at in range(first * UNIT_SIZE, last * UNIT_SIZE, STEP):
                data = row.scan(file, at - file.start, min(STEP, last * UNIT_SIZE - at))
                whole = len(data) - len(data) % UNIT_SIZE
                for index, unit in enumerate(UNIT.iter_unpack(data[:whole])):
                    yield at // UNIT_SIZE + index, unit

    def live_begin(self, key: QueueKey, log_start: int) -> int:
        """Offset of the first unit whose record is still in the log; the end when there is none."""
        low, high = self.begin(key), self.end(key)
        while low < high:
            middle = (low + high) // 2
            unit = self.get(key, middle)
            if unit is not None and not is_filler(unit) and unit[0] >= log_start:
                high = middle
            else:
                low = middle + 1
        return low


def _written(row: FileRow, start: int, size: int) -> int:
    """How many units a file has before the first empty one."""
    count = 0
    for at in range(0, size, STEP):
        data = row.read(start + at, STEP)
        whole = len(data) - len(data) % UNIT_SIZE
        for position, length, _ in UNIT.iter_unpack(data[:whole]):
            if position < 0 or length <= 0:
                return count
            count += 1
    return count
