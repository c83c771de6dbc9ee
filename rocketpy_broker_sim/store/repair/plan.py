"""What a repair would do: the damaged regions of the log, the messages lost in them, what takes their place.

Nothing is changed here; the same plan is shown by a dry run and carried out by `apply`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy.errors import StoreCorruptError
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy.wire.record import BLANK_SIZE, encode_blank
from rocketpy_broker_sim.store.delay_levels import DelayLevels
from rocketpy_broker_sim.store.inspect.layout import QueueKey
from rocketpy_broker_sim.store.inspect.recovery_bounds import RecoveryBounds
from rocketpy_broker_sim.store.inspect.rows import StoreFile
from rocketpy_broker_sim.store.inspect.units import QueueUnits
from rocketpy_broker_sim.store.inspect.walk import LogWalk
from rocketpy_broker_sim.store.log.commit_log import FOLDER
from rocketpy_broker_sim.store.log.place_holders import (
    filler,
    least_filler,
    place_holder,
    place_holder_size,
)
from rocketpy_broker_sim.store.queue.consume_queue_ext import is_address
from rocketpy_broker_sim.store.repair.expired import expired_queues
from rocketpy_broker_sim.store.repair.lost import LostMessage, Survivors

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["Region", "RepairPlan", "make_plan"]

MAX_PIECE = 1024 * 1024
"""Bytes of one record that takes the place of what was damaged."""
MAX_TAIL = 1 << 40
"""Bytes behind the end of the log to which a unit may lead; one that leads further is damaged itself."""
_LOST_END = "the end of the log is lost"
_SCHEDULE = SCHEDULE_TOPIC.encode()
_CONTRADICTORY = "a record that names another queue or offset than the one it has"


@attrs.define(kw_only=True)
class Region:
    """A part of one log file that holds no valid record.

    Attributes:
        path: The file.
        file_start: Position of its first byte.
        begin: Position where the damage begins.
        end: Position of the next valid record, or of the end of the file.
        kept: Position behind the last of its bytes that is there at all.
        to_file_end: Whether nothing valid follows in the file.
        reason: What is wrong there.
        timestamp: Store time of the record before it, ms.
        lost: The messages that stood there.
        is_tail: Whether the log ends there: it goes on behind the place holders.
    """

    path: str
    file_start: int
    begin: int
    end: int
    kept: int
    to_file_end: bool
    reason: str
    timestamp: int
    lost: list[LostMessage] = attrs.field(factory=list)
    is_tail: bool = False

    def row(self) -> dict[str, Any]:
        """For machines."""
        lost = [{"topic": one[0], "queueId": one[1], "queueOffset": one[2]} for one in self.lost]
        row = {"kind": "quarantine", "path": self.path, "position": self.begin, "offset": self.begin - self.file_start}
        return row | {"size": self.end - self.begin, "reason": self.reason, "lostMessages": lost}

    def replacement(self) -> list[bytes]:
        """The records that take the place of the region; together they fill it, but for the end of the log.

        Raises:
            StoreCorruptError: They do not fit.
        """
        pieces, position = [], self.begin
        for lost in self.lost:
            pieces.append(place_holder(lost[0].encode(), lost[1], lost[2], position, self.timestamp))
            position += len(pieces[-1])
        left = self.end - position
        if left < 0:
            raise self._no_room(f"{len(self.lost)} lost messages do not fit into {self.end - self.begin} bytes")
        if self.is_tail:
            return pieces
        if self.to_file_end and left >= BLANK_SIZE:
            return [*pieces, encode_blank(left)]
        if 0 < left <= MAX_PIECE and self.lost:
            one, at = self.lost[-1], position - len(pieces[-1])
            longer = place_holder(one[0].encode(), one[1], one[2], at, self.timestamp, extra=left)
            return [*pieces[:-1], longer]
        if 0 < left < least_filler():
            raise self._no_room(f"{left} bytes are too few for a record")
        return [*pieces, *self._fillers(position, left)]

    def _fillers(self, position: int, left: int) -> Iterator[bytes]:
        while left:
            size = left if left <= MAX_PIECE + least_filler() else MAX_PIECE
            yield filler(size, position, self.timestamp)
            position += size
            left -= size

    def _no_room(self, why: str) -> StoreCorruptError:
        return StoreCorruptError(
            f"{self.path} cannot be repaired at position {self.begin}: {why}; put the file back from a copy",
            path=self.path,
            offset=self.begin - self.file_start,
        )


@attrs.define
class RepairPlan:
    """What is to be done to the log.

    Attributes:
        regions: Damaged parts that valid records follow, in order; files that are missing are regions too.
        tails: What stands, or stood, behind the last valid record, a part for each file; the log goes on in the last.
        end: Position behind the last valid record.
        surplus: Log files that hold no record and would keep a broker from starting: those behind the end of the log,
            and empty ones before it.
        resized: The file in which the log ends, when it has not its size.
        expired: Queues that stay as they are, because only they tell where their offsets go on.
        has_other_delays: Whether units of delayed messages have other times than the settings give.
        cut: How many valid records stand behind the end of the log, and leave it: another broker had cut them off.
    """

    regions: list[Region]
    tails: list[Region]
    end: int
    surplus: list[StoreFile]
    resized: StoreFile | None
    expired: frozenset[QueueKey]
    has_other_delays: bool
    cut: int

    @property
    def lost(self) -> int:
        """How many messages are known to be lost."""
        return sum(len(region.lost) for region in self.all)

    @property
    def all(self) -> list[Region]:
        """The regions and the tails."""
        return [*self.regions, *self.tails]

    def replacements(self) -> Iterator[list[bytes]]:
        """The records that take the place of each region.

        Raises:
            StoreCorruptError: They do not fit.
        """
        return (region.replacement() for region in self.all)


def make_plan(layout: StoreLayout, progress: Callable[[int], None] | None = None) -> RepairPlan:
    """Go over the log and find out what must be replaced.

    Raises:
        StoreCorruptError: Nothing tells what an offset that is missing has become of.
        StoreError: It cannot be read.
    """
    distrusted: set[int] = set()
    bounds = RecoveryBounds(layout, QueueUnits(layout))
    while True:
        planner = _Planner(layout, bounds, progress, distrusted)
        planner.read()
        if not planner.messages and any(row.files for row in layout.queues.values()):
            where = layout.storage.describe(layout.log.folder)
            raise StoreCorruptError(
                f"no valid record is left in {where}, though there are queues: put its files back from a copy",
                path=layout.log.folder,
                offset=0,
            )
        found = planner.suspects() - distrusted
        if not found:
            return planner.plan()
        distrusted |= found


class _Planner:
    """The making of one plan.

    Attributes:
        messages: Records that stay.
    """

    def __init__(
        self,
        layout: StoreLayout,
        bounds: RecoveryBounds,
        progress: Callable[[int], None] | None,
        distrusted: Collection[int],
    ) -> None:
        self._bounds = bounds
        self._distrusted = distrusted
        self.messages = 0
        self._layout = layout
        self._progress = progress
        self._walk = LogWalk(layout.log, progress=progress)
        self._units = QueueUnits(layout)
        self._survivors = Survivors(layout, self._units)
        self._levels = DelayLevels(layout.config.message_delay_level)
        self._has_other_delays = False
        self._regions: list[Region] = []
        self._open: list[Region] = []
        """What is odd and not followed by a record yet."""
        self._timestamp = 0
        self._end = layout.log.start
        self._cut = 0

    def read(self) -> None:
        """Go over the log, up to where another broker cut it."""
        before: int | None = None
        for file in self._layout.log.files:
            if self._cut:
                break
            while before is not None and before < file.start:
                self._open.append(self._missing(before))
                before += self._layout.log.file_size
            self._file(file)
            before = file.start + self._layout.log.file_size

    def suspects(self) -> set[int]:
        """Positions of records that cannot be right, though their checksums are."""
        return self._survivors.suspects([(region.begin, region.end) for region in self._regions])

    def plan(self) -> RepairPlan:
        """What follows from it."""
        places = [(region.begin, region.end) for region in self._regions]
        behind: list[LostMessage] = []
        for lost in self._survivors.lost([*places, (self._end, self._end + MAX_TAIL)]):
            (self._regions[lost.region].lost if lost.region < len(places) else behind).append(lost)
        tails = self._tails(behind)
        surplus, resized = self._surplus(tails), self._resized(tails)
        expired = expired_queues(self._layout)
        return RepairPlan(self._regions, tails, self._end, surplus, resized, expired, self._has_other_delays, self._cut)

    def _tails(self, lost: Sequence[LostMessage]) -> list[Region]:
        """What the log goes on with behind its last record: as many files as the place holders need."""
        waiting = deque(lost)
        tail = self._tail(self._end)
        if tail.kept == tail.begin and not waiting:
            return []
        tails = [tail]
        _move_what_fits(waiting, tail)
        while waiting:
            tails.append(self._tail(tails[-1].end))
            tails[-1].lost.append(waiting.popleft())
            _move_what_fits(waiting, tails[-1])
        tails[-1].is_tail = True
        return tails

    def _tail(self, begin: int) -> Region:
        """The part of one file from a position behind all records on; nothing is kept of zeros."""
        log = self._layout.log
        start = begin // log.file_size * log.file_size
        file = log.find(start) or StoreFile(f"{FOLDER}/{start:020d}", start, 0)
        odd = next((one for one in self._open if one.file_start == start and one.kept > begin and one.reason), None)
        reason = _LOST_END if odd is None else odd.reason
        region = self._region(file, begin, start + log.file_size, reason, to_file_end=True)
        if odd is None:
            region.kept = begin
        return region

    def _surplus(self, tails: Sequence[Region]) -> list[StoreFile]:
        log = self._layout.log
        behind = -(-self._end // log.file_size) * log.file_size
        made_again = {region.path for region in [*self._regions, *tails]}
        found = [file for file in log.empty if file.start < behind]
        found += [file for file in [*log.files, *log.empty] if file.start >= behind]
        return [file for file in found if file.path not in made_again]

    def _resized(self, tails: Sequence[Region]) -> StoreFile | None:
        log = self._layout.log
        file = log.find(self._end - 1) if self._end > log.start else None
        if file is None or file.size == log.file_size or any(tail.path == file.path for tail in tails):
            return None
        return file

    def _file(self, file: StoreFile) -> None:
        """Go over one file."""
        reached, reason = file.start, ""
        for entry in self._walk.of_file(file):
            if entry.record is not None and entry.position not in self._distrusted:
                if self._is_behind_end(entry.record):
                    behind = LogWalk(self._layout.log, entry.position, progress=self._progress)
                    self._cut = sum(each.record is not None for each in behind)
                    return
                self._take(entry.record)
            elif entry.kind == "blank":
                self._end = entry.position + entry.size if not self._open else self._end
                reached = file.start + self._layout.log.file_size
                break
            elif entry.followed or entry.record is not None:
                end, why = entry.position + entry.size, entry.reason or _CONTRADICTORY
                self._open.append(self._region(file, entry.position, end, why, to_file_end=False))
            else:
                reason = entry.reason
                break
            reached = entry.position + entry.size
        end = file.start + self._layout.log.file_size
        if reached < end:
            self._open.append(self._region(file, reached, end, reason, to_file_end=True))

    def _is_behind_end(self, record: LogRecord) -> bool:
        """Whether a record is no part of the log, which ends with the damage before it."""
        is_damage = any(region.reason != _CONTRADICTORY for region in self._open)
        return is_damage and self.messages > 0 and self._bounds.is_left_over(record, self._timestamp)

    def _take(self, record: LogRecord) -> None:
        """A record that stays; what was odd before it is followed by one."""
        self._regions += self._open
        self._open.clear()
        self._survivors.see(record)
        self._has_other_delays |= record.topic == _SCHEDULE and self._is_due_otherwise(record)
        self.messages += 1
        self._timestamp = record.store_timestamp
        self._end = record.position + record.size

    def _is_due_otherwise(self, record: LogRecord) -> bool:
        """Whether the unit of a delayed message has another time than one that is built from the settings."""
        unit = self._units.get((SCHEDULE_TOPIC, record.queue_id), record.queue_offset)
        if unit is None or unit[:2] != (record.position, record.size) or is_address(unit[2]):
            return False
        return unit[2] != self._levels.deliver_time(record.properties, record.store_timestamp)

    def _region(self, file: StoreFile, begin: int, end: int, reason: str, *, to_file_end: bool) -> Region:
        return Region(
            path=file.path,
            file_start=file.start,
            begin=begin,
            end=end,
            kept=file.end if to_file_end else end,
            to_file_end=to_file_end,
            reason=reason,
            timestamp=self._timestamp,
        )

    def _missing(self, start: int) -> Region:
        """A file that is not there, though later ones are."""
        file = StoreFile(f"{FOLDER}/{start:020d}", start, 0)
        end = start + self._layout.log.file_size
        return self._region(file, start, end, "the file is missing", to_file_end=True)


def _move_what_fits(waiting: deque[LostMessage], tail: Region) -> None:
    """Give a part of the tail as many messages as its place holders have room for, with the filler behind them."""
    room = tail.end - tail.begin - BLANK_SIZE - sum(place_holder_size(one[0].encode()) for one in tail.lost)
    while waiting and (size := place_holder_size(waiting[0][0].encode())) <= room:
        tail.lost.append(waiting.popleft())
        room -= size
