"""Opening a store again: find the valid end of the log, cut off what is torn, bring the consume queues level with it.

After a clean stop the end of the last file is checked. After an unclean one, the log is read from the start of the file
up to which the checkpoint vouches for it, and the units of what it does not vouch for are rebuilt (with Apache's,
which has times alone, those of the whole file). A torn tail is cut. Damage that lies before records known to have
reached the disk stops the broker.
Plays the part of CommitLog.recoverNormally and recoverAbnormally.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.delay_levels import DelayLevels
from rocketpy_broker_sim.store.log.scan import LogRecord, LogScan, find_record
from rocketpy_broker_sim.store.queue.consume_queue import FILLER_SIZE, OffsetGapError, Replay
from rocketpy_broker_sim.store.queue.dispatch_request import is_consumable
from rocketpy_broker_sim.store.queue.settled_units import SettledUnits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.checkpoint import Checkpoint
    from rocketpy_broker_sim.store.deleted_topics import DeletedTopics
    from rocketpy_broker_sim.store.dispatch import CommitLogDispatcher
    from rocketpy_broker_sim.store.log.commit_log import CommitLog
    from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["Recovery"]

CHUNK = 1000
CHECKED_AFTER_STOP = 64 * 1024 * 1024
"""Bytes at the end of the log that are read after a clean stop: all of a file of a gibibyte takes seconds."""
log = get_logger(__name__)


class Recovery:
    """One opening of a store whose files are loaded.

    What it changes must be flushed before anything is acknowledged. That the end of the log was cut off has reached the
    disk when it returns: otherwise another power loss could let what stood there follow new records.
    """

    def __init__(
        self,
        storage: Storage,
        config: MessageStoreConfig,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatcher: CommitLogDispatcher,
        checkpoint: Checkpoint,
        deleted: DeletedTopics,
    ) -> None:
        self._storage = storage
        self._config = config
        self._log = commit_log
        self._queues = queues
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self._deleted = deleted
        self._levels = DelayLevels(config.message_delay_level)
        self._behind_checkpoint = 0
        self._units_end = max((queue.max_position for queue in queues), default=0)

    def run(self, *, unclean: bool) -> None:
        """Bring log and queues to the same valid state.

        Raises:
            StoreCorruptError: Records that were safe on the disk are damaged or missing.
        """
        row = self._log.row
        self._check_end()
        if not row.files:
            self._queues.delete_all()  # without records units mean nothing
            self._log.reset(0, 0, 0)
        else:
            self._drop_deleted()
            self._settle(self._replayed(unclean), unclean)
        self._queues.count_units()

    def _drop_deleted(self) -> None:
        """Delete the queues that a power loss brought back or the disk did not let go, of topics that were deleted."""
        for topic, end in self._deleted:
            refusal: OSError | None = None
            for queue in self._queues.of_topic(topic):
                if queue.max_position <= end:
                    try:
                        self._queues.delete(queue)
                    except OSError as exc:  # nobody finds it any more, and the next stop or start tries it again
                        refusal = exc
            if refusal is not None:
                log.warning("queues of the deleted topic %s cannot be removed from the disk: %s", topic, refusal)

    def _replayed(self, unclean: bool) -> LogScan:
        """Read the part of the log that needs it; all of it when the queues turn out to have lost units."""
        if not self._units_end:
            return self._replay(self._log.row.start, Replay.WHOLE)
        begin = self._begin_after_crash() if unclean else self._begin_after_stop()
        for dispatch_from in self._dispatch_from(begin, unclean):
            try:
                scan = self._replay(begin, Replay.PART if unclean else Replay.NO, dispatch_from)
                self._check_units(scan.position, dispatch_from if unclean else 0)
            except OffsetGapError as gap:
                log.warning("consume queues have lost units (%s): rebuilding more of them from the log", gap)
            else:
                return scan
        self._drop_units()
        return self._replay(self._log.row.start, Replay.WHOLE)

    def _dispatch_from(self, begin: int, unclean: bool) -> tuple[int, ...]:
        """Positions from which on records may lack units, each to be tried when there are more than that.

        After a clean stop that is behind all units. After a crash, what our checkpoint vouches for has its units.
        """
        if not unclean:
            return (max(self._units_end, self._checkpoint.dispatched or 0),)
        settled = self._checkpoint.settled
        return (begin,) if settled is None or settled <= begin else (settled, begin)

    def _drop_units(self) -> None:
        """Delete the queues. One whose records are all gone stays: nothing else says where its offsets go on."""
        for queue in self._queues:
            if queue.max_position > self._log.row.start or not queue.max_offset:
                self._queues.delete(queue)

    def _check_units(self, end: int, units_kept: int) -> None:
        """See whether a queue has lost units that no record in the part that was read would have shown.

        Args:
            end: Where the log ends.
            units_kept: Position up to which units were left as they are.

        Raises:
            OffsetGapError: There are fewer units than the checkpoint and the records behind it tell; or the log ends
                before those that were kept, so that nobody can count them.
        """
        if end < units_kept:
            raise OffsetGapError(f"the log ends at {end}, before units that lead up to {units_kept}")
        units, dispatched = self._checkpoint.units, self._checkpoint.dispatched
        self._queues.count_units()
        if units is None or dispatched is None or end < dispatched:
            return
        if self._queues.units < units + self._behind_checkpoint:
            raise OffsetGapError(f"{self._queues.units} units where {units + self._behind_checkpoint} were written")

    # --- where to begin

    def _begin_after_stop(self) -> int:
        """Some way before the last unit, in its file; every record behind the last unit is dispatched."""
        known = self._checkpoint.dispatched
        known = self._units_end if known is None else max(known, self._units_end)
        return self._record_before(known - CHECKED_AFTER_STOP, self._start_of_file(known))

    def _record_before(self, position: int, start: int) -> int:
        """Where a record begins at or before a position, by the queue that goes furthest; not before `start`."""
        if position <= start:
            return start
        last = max(self._queues, key=lambda queue: queue.max_position)
        for begin, size, _ in last.units_back(last.max_offset):
            if begin <= start or size == FILLER_SIZE:
                break
            if begin <= position:
                return begin
        return start

    def _begin_after_crash(self) -> int:
        """The start of the file from which on log or units may be torn."""
        settled = self._checkpoint.settled
        if settled is not None:
            return self._start_of_file(settled)
        safe = self._checkpoint.safe_timestamp
        for file in reversed(self._log.row.files):
            first = next(iter(LogScan(self._log.row, file.start, self._config)), None)
            if first is not None and 0 < first.store_timestamp <= safe:
                return file.start
        return self._log.row.start

    def _start_of_file(self, position: int) -> int:
        row = self._log.row
        file = row.find(min(max(position, row.start), row.end - 1))
        return row.start if file is None else file.start

    # --- reading the log

    def _replay(self, begin: int, replay: Replay, dispatch_from: int | None = None) -> LogScan:
        """Check the records from `begin` on and dispatch those that may lack units.

        Args:
            begin: Where to begin.
            replay: After a clean stop (NO) queues are left as they are; else units are cut first.
            dispatch_from: Where the records begin that may lack units; None for all that are read.
        """
        if dispatch_from is None:
            dispatch_from = begin
        if replay is not Replay.NO:
            self._cut_queues(dispatch_from)
        scan = LogScan(self._log.row, begin, self._config, self._checkpoint.sealed_from)
        settled = SettledUnits(self._queues)
        self._behind_checkpoint = 0
        is_checked = replay is Replay.NO
        records = self._unsettled(scan, dispatch_from, settled)
        while chunk := list(islice(records, CHUNK)):
            if not is_checked:
                settled.check()
                is_checked = True
            self._dispatch(chunk, Replay.PART if replay is Replay.NO else replay)
        if not is_checked:
            settled.check()
        return scan

    def _unsettled(self, scan: LogScan, dispatch_from: int, settled: SettledUnits) -> Iterator[LogRecord]:
        """The records that may lack units; those before are noted."""
        for record in scan:
            if self._deleted.is_gone(record):
                continue
            if record.position >= dispatch_from:
                yield record
            else:
                settled.note(record)

    def _dispatch(self, chunk: list[LogRecord], replay: Replay) -> None:
        dispatched = self._checkpoint.dispatched or 0
        new = [each for each in chunk if each.position >= dispatched and is_consumable(each.sys_flag)]
        self._behind_checkpoint += len(new)
        requests = [self._dispatcher.request_of(record, self._levels) for record in chunk]
        self._dispatcher.dispatch(requests, replay)

    def _cut_queues(self, position: int) -> None:
        for queue in self._queues:
            if queue.row.start and not self._log.row.start:
                queue.restart()  # nothing was ever cleaned: its first files never reached the disk
                self._queues.mark_dirty(queue)
            elif queue.cut(position):
                self._queues.mark_dirty(queue)

    # --- the end

    def _check_end(self) -> None:
        """Refuse a log whose last files are missing altogether."""
        flushed = self._checkpoint.flushed
        if flushed is None or flushed <= self._log.row.end:
            return
        raise StoreCorruptError(
            f"the commit log in {self._storage.describe(self._log.row.folder)} ends at {self._log.row.end}, though "
            f"it had reached the disk up to {flushed}: put the missing files back from a copy",
            path=self._log.row.folder,
            offset=flushed,
        )

    def _settle(self, scan: LogScan, unclean: bool) -> None:
        """Cut log and queues at the end of what is valid, and let the log go on there."""
        end = scan.position
        known_end = self._units_end if self._checkpoint.flushed is None else self._checkpoint.flushed
        if end < known_end:
            self._judge_damage(end, known_end, unclean)
        for queue in self._queues:
            if queue.max_position > end and queue.cut(end):
                self._queues.mark_dirty(queue)
            queue.drop_empty_files()
            queue.correct_min_offset(self._log.row.start)
        # Flushed even when there was nothing to cut: a recovery that was killed may have cut it just now.
        self._log.row.cut(end, keep_first=True)
        self._log.row.flush(end, end + 1)
        vouched = self._checkpoint.flushed
        known = not unclean or (vouched is not None and vouched <= end)
        timestamp = max(scan.last_timestamp, self._checkpoint.log_timestamp if known else 0)
        if unclean and vouched is not None:
            self._log.row.write_again(vouched, end)
        self._log.reset(end, timestamp, self._log.row.start if vouched is None else min(vouched, end))

    def _judge_damage(self, end: int, known_end: int, unclean: bool) -> None:
        """Decide on a log that stops being valid before the end it had: cut a torn tail, refuse anything else."""
        follower = find_record(self._log.row, end, self._config, self._checkpoint.sealed_from)
        if follower is not None and self._was_safe(follower, known_end, unclean):
            raise self._damaged(end, f"a valid record follows at {follower.position}")
        if self._lost_several(end, unclean):
            raise self._damaged(end, "several messages behind it had reached the disk")
        log.error("the commit log is damaged at its end, position %d: the last message is cut off", end)

    def _lost_several(self, end: int, unclean: bool) -> bool:
        """Whether more than the last message behind a position had reached the disk, or that cannot be ruled out."""
        flushed, units = self._checkpoint.flushed, self._checkpoint.units
        if end + self._claimed_size(end) == flushed:
            return False
        if not unclean:
            return sum(1 for queue in self._queues for _ in takewhile(lambda unit: unit[0] >= end, _back(queue))) > 1
        if flushed is None:
            return False  # Apache's broker crashed here, and nobody knows what had reached the disk
        if units is None or self._checkpoint.dispatched != flushed:
            return True
        return units - self._queues.units > 1

    def _claimed_size(self, position: int) -> int:
        """What stands where a record says how large it is."""
        file = self._log.row.find(position)
        return 0 if file is None else int.from_bytes(file.read(position - file.start, 4), "big")

    def _damaged(self, end: int, why: str) -> StoreCorruptError:
        file = self._log.row.find(end)
        path = file.path if file else self._log.row.folder
        return StoreCorruptError(
            f"{self._storage.describe(path)} is damaged at position {end}, while {why}: "
            "restore the file from a copy, or repair the store",
            path=path,
            offset=end - (file.start if file else 0),
        )

    def _was_safe(self, record: LogRecord, known_end: int, unclean: bool) -> bool:
        """Whether a record had reached the disk before the store was closed or crashed."""
        if self._checkpoint.flushed is not None:
            return True  # what is damaged was safe itself: no torn write, wherever the record stands that follows it
        if record.position >= known_end:
            return False
        if not unclean:
            return True
        return record.store_timestamp <= self._checkpoint.log_timestamp


def _back(queue: ConsumeQueue) -> Iterator[tuple[int, int, int]]:
    return queue.units_back(queue.max_offset)
