"""Whether queues and log agree: each record has its unit, each unit leads to its record, offsets have no gaps.

Records come in log order, once. A queue keeps a few numbers, so that memory does not grow with the log; only a queue
whose numbers do not add up is gone through unit by unit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.inspect.findings import DAMAGE, NOTE, RECOVERED, Finding
from rocketpy_broker_sim.store.inspect.units import QueueUnits, Unit, is_filler
from rocketpy_broker_sim.store.log.scan import RecordCheck
from rocketpy_broker_sim.store.queue.consume_queue_ext import is_address
from rocketpy_broker_sim.store.queue.dispatch_request import is_consumable, tags_code_of

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout
    from rocketpy_broker_sim.store.inspect.recovery_bounds import RecoveryBounds
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["QueueCheck"]

_LOST = "messages of the log have no unit"
_WRONG = "units lead elsewhere than to the messages that have their offsets"
_CONTENT = "units have another size or tags code than their messages"
_GAP = "offsets have no message in the log, though later ones have"
_CLAIM = "messages name another offset than the one they have"
_BEHIND = "messages have no unit yet"
_AHEAD = "units lead behind the end of the log"
_STRAY = "units lead to no message of this queue"
_DAMAGED = "units lead to damaged places of the log"
_MENDED = "units will be rebuilt"
_KINDS = {
    _LOST: DAMAGE,
    _WRONG: DAMAGE,
    _CONTENT: DAMAGE,
    _GAP: DAMAGE,
    _CLAIM: DAMAGE,
    _STRAY: DAMAGE,
    _DAMAGED: DAMAGE,
    _BEHIND: RECOVERED,
    _MENDED: RECOVERED,
}


class _Queue:
    """What is kept of a queue while the log goes by."""

    __slots__ = ("end", "following", "jumped", "key", "matched", "odd")

    def __init__(self, key: QueueKey, end: int) -> None:
        self.key = key
        self.end = end
        self.following: int | None = None
        self.jumped: int | None = None
        """The offset that the last record should have had, where it had a later one."""
        self.matched = 0
        self.odd: dict[str, list[int]] = {}
        """First offset and number of what is odd, by what it is."""

    def note(self, what: str, offset: int, count: int = 1) -> None:
        """Count something odd."""
        seen = self.odd.setdefault(what, [offset, 0])
        seen[1] += count


class QueueCheck:
    """The queues of a store while its log goes by.

    Attributes:
        units: How many units were found right.
    """

    def __init__(self, layout: StoreLayout, units: QueueUnits, bounds: RecoveryBounds) -> None:
        self._layout = layout
        self._units = units
        self._bounds = bounds
        self._queues = {key: _Queue(key, bounds.queue_ends[key]) for key in layout.queues}
        self._without: Counter[str] = Counter()
        self.units = 0

    def see(self, record: LogRecord) -> None:
        """Compare the next record of the log with its unit."""
        if not is_consumable(record.sys_flag):
            return
        topic, offset = record.topic.decode(), record.queue_offset
        queue = self._queues.get((topic, record.queue_id))
        if queue is None:
            self._without[topic] += 1
            return
        jumped = None
        if queue.following is not None and offset != queue.following:
            if queue.jumped is not None and offset == queue.jumped + 1:
                queue.odd.pop(_GAP, None)
                queue.note(_CLAIM, queue.jumped)  # all but the record before are in order
            elif offset < queue.following:
                # The topic was deleted and made again: what came before has no units any more, and needs none.
                queue.odd.clear()
                queue.matched = 0
            else:
                queue.note(_GAP, queue.following, offset - queue.following)
                jumped = queue.following
        queue.following, queue.jumped = offset + 1, jumped
        unit = self._units.get(queue.key, offset)
        what = self._compare(record, unit, topic)
        if what is not None:
            queue.note(what, offset)
        elif offset < queue.end:
            queue.matched += 1

    def _compare(self, record: LogRecord, unit: Unit | None, topic: str) -> str | None:
        """What is wrong with the unit of a record; None when nothing is."""
        if unit is None:
            return _BEHIND if self._bounds.is_replayed(record.position) else _LOST
        if unit[0] == record.position and unit[1] == record.size:
            # Scheduled messages carry the time of delivery there, filtered ones may carry an address.
            if is_address(unit[2]) or topic == SCHEDULE_TOPIC or unit[2] == tags_code_of(record.properties):
                return None
            what = _CONTENT
        else:
            what = _CONTENT if unit[0] == record.position else _WRONG
        return _MENDED if self._bounds.is_replayed(record.position) else what

    # --- when the whole log has gone by

    def findings(self, log_end: int, damaged: list[tuple[int, int]]) -> Iterator[Finding]:
        """What is odd.

        Args:
            log_end: Position behind the last valid record.
            damaged: (begin, end) of damaged regions before it, in order.
        """
        for queue in self._queues.values():
            begin = self._units.live_begin(queue.key, self._layout.log.start)
            if queue.matched != queue.end - begin:
                self._walk(queue, begin, log_end, damaged)
            self.units += queue.matched
            if queue.odd.get(_DAMAGED, [0, 0])[1] >= queue.odd.get(_GAP, [0, 0])[1]:
                queue.odd.pop(_GAP, None)  # told already
            for what, (offset, count) in queue.odd.items():
                yield self._finding(queue, what, offset, count)
        for topic, count in sorted(self._without.items()):
            text = f"messages of {topic!r} have no queue: the topic was deleted, or its folder is missing"
            yield Finding(kind=NOTE, part="queue", path=f"consumequeue/{topic}", size=count, text=text)

    def _walk(self, queue: _Queue, begin: int, log_end: int, damaged: list[tuple[int, int]]) -> None:
        """Find the units that no record asked for."""
        starts = [region[0] for region in damaged]
        check = RecordCheck(MessageStoreConfig(check_crc_on_recover=False))
        for offset, unit in self._units.walk(queue.key, begin, queue.end):
            if is_filler(unit) or unit[1] <= 0 or unit[0] < 0:
                continue
            position, size, _ = unit
            index = bisect_right(starts, position) - 1
            if position >= log_end:
                queue.note(_AHEAD, offset)
            elif index >= 0 and position < damaged[index][1]:
                queue.note(_DAMAGED, offset)
            elif not self._leads_home(queue.key, offset, position, size, check):
                queue.note(_MENDED if self._bounds.is_replayed(position) else _STRAY, offset)

    def _leads_home(self, key: QueueKey, offset: int, position: int, size: int, check: RecordCheck) -> bool:
        record = check(self._layout.log.read(position, size), 0, position)
        if record is None:
            return False
        return (record.topic.decode(), record.queue_id, record.queue_offset) == (*key, offset)

    def _finding(self, queue: _Queue, what: str, offset: int, count: int) -> Finding:
        row = self._layout.queues[queue.key]
        file = row.find(offset * UNIT_SIZE)
        kind = _KINDS.get(what) or (RECOVERED if self._layout.unclean else DAMAGE)
        ending = ": will be recovered at the next start" if kind == RECOVERED else ""
        return Finding(
            kind=kind,
            part="queue",
            path=row.folder if file is None else file.path,
            position=offset,
            offset=None if file is None else offset * UNIT_SIZE - file.start,
            size=count,
            text=f"{what}{ending}",
        )
