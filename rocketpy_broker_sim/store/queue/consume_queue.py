"""One consume queue: where in the commit log its messages stand, as a row of units of twenty bytes.

A unit is position, size and tags code of one message; the queue offset of a message is the number of its unit. A queue
that begins later than at zero is filled up with units that say so. Times are looked up in the commit log, which the
caller names. Plays the part of ConsumeQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.wire.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.disk.failure import beginning
from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue
from rocketpy_broker_sim.store.queue.consume_queue_ext import ConsumeQueueExt, entries_of
from rocketpy_broker_sim.store.queue.units import (
    FEW,
    FILLER_SIZE,
    STEP,
    UNIT,
    first_address,
    last_address,
    pack_code,
    sound_units,
    units_in_order,
)

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.filtering import BitMaps
    from rocketpy_broker_sim.store.queue.consume_queue_ext import ExtEntry
    from rocketpy_broker_sim.store.queue.dispatch_request import AnyRequest

__all__ = ["FILLER_SIZE", "FOLDER", "MAX_QUEUE_ID", "UNIT", "ConsumeQueue", "OffsetGapError", "Replay"]

FOLDER = "consumequeue"
PAGE = 4096
MAX_QUEUE_ID = 0x7FFFFFFF
_FILLER = UNIT.pack(0, FILLER_SIZE, 0)


class Replay(Enum):
    """Where the messages come from that a queue is given."""

    NO = 0
    """They were just written, so they follow each other."""
    PART = 1
    """From a part of the log: some may have units already, and units before the first must be there."""
    WHOLE = 2
    """From the whole log: units before the first are of records that are gone."""


class OffsetGapError(Exception):
    """A record claims a queue offset behind the queue's end: units before it are missing. For recovery alone."""


class ConsumeQueue:
    """The units of one queue of one topic.

    Attributes:
        topic: Its topic; `topic_bytes` as records carry it.
        queue_id: Its number.
        next_offset: Offset of the next message to be put; runs ahead of `max_offset` until that is dispatched.
        max_offset: Offset behind the last unit: what readers see as the end.
        min_offset: Offset of the first unit whose record is still there.
        max_position: Position in the log behind the last record that has a unit.
        inherited: Offset behind the last unit that another run wrote, and this one has not written again.
        dirty: Whether it waits to be flushed. Set by the loop, cleared by the flushing thread.
        deleted: Whether its files are gone.
        ext: What is kept of its messages beyond their units; None as long as that is nothing.
    """

    __slots__ = (
        "_ext_file_size",
        "_flushed",
        "_is_trimmed",
        "_last_extended",
        "_log_start",
        "_notify",
        "_parents_synced",
        "_storage",
        "deleted",
        "dirty",
        "ext",
        "inherited",
        "is_schedule",
        "is_waiting",
        "max_offset",
        "max_position",
        "min_offset",
        "next_offset",
        "queue_id",
        "row",
        "topic",
        "topic_bytes",
    )

    def __init__(
        self,
        storage: Storage,
        topic: str,
        queue_id: int,
        file_size: int,
        on_open: Callable[[ConsumeQueue], None] | None = None,
        *,
        ext_file_size: int = 0,
    ) -> None:
        """Nothing is loaded yet.

        Args:
            storage: The directory.
            topic: Its topic.
            queue_id: Its number.
            file_size: Bytes in each of its files.
            on_open: Called whenever one of them has been opened.
            ext_file_size: Bytes in each file of its extension; 0 for a queue without one.
        """
        self._storage = storage
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self.is_schedule = topic == SCHEDULE_TOPIC
        self.is_waiting = topic in (SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_HALF_TOPIC)
        self._notify = None if on_open is None else partial(on_open, self)
        self.row = MappedFileQueue(storage, f"{FOLDER}/{topic}/{queue_id}", file_size, self._notify)
        self.ext: ConsumeQueueExt | None = None
        self._ext_file_size = ext_file_size
        self._last_extended = -1  # offset of the last unit that leads to the extension
        self.next_offset = 0
        self.max_offset = 0
        self.min_offset = 0
        self.max_position = 0
        self.inherited = 0
        self.dirty = False
        self.deleted = False
        self._flushed = 0
        self._is_trimmed = False  # whether nothing stands behind the last unit, for certain
        self._log_start = -1  # what the first offset was found for
        self._parents_synced = False

    # --- loading

    def facts(self) -> tuple[int, ...]:
        """What `restore` takes: where files and units begin and end."""
        row = self.row
        return row.start, len(row.files), self.min_offset, self.max_offset, self.max_position, self._log_start

    def restore(
        self, start: int, files: int, min_offset: int, max_offset: int, max_position: int, log_start: int
    ) -> None:
        """Be as these facts say, without looking at the files."""
        self.row.restore(start, files)
        self.min_offset = min_offset
        self.max_offset = self.next_offset = self.inherited = max_offset
        self.max_position = max_position
        self._flushed = max_offset * UNIT_SIZE
        self._log_start = log_start

    def load(self, *, mend: bool = False) -> bool:
        """Take in the files and find the last unit; whether files had to be mended."""
        mended = self.row.load(safe=0 if mend else None)
        self._settle(self._written_end(mend))
        if mend:  # while the file is open: there may be more queues than files that can stay open
            mended |= self.row.cut(self.max_offset * UNIT_SIZE, keep_first=True)
            self._is_trimmed = True
        if self._ext_file_size:
            mended |= self._load_ext(mend)
        return mended

    def _load_ext(self, mend: bool) -> bool:
        """Take in the extension, if there is one or a unit leads to it; whether files had to be mended."""
        ext = self._new_ext()
        mended = ext.load(safe=0 if mend else None)
        last = self._last_address()
        if ext.row.files or last is not None:
            self.ext = ext
            if not mend:  # else units are cut first, as their entries may be missing
                ext.settle(last)
        return mended

    def _new_ext(self) -> ConsumeQueueExt:
        return ConsumeQueueExt(self._storage, self.topic, self.queue_id, self._ext_file_size, self._notify)

    def _last_address(self) -> int | None:
        """Where the last unit leads that leads to the extension; notes which one that is."""
        for file in reversed(self.row.files):
            stop, step = min(self.max_offset * UNIT_SIZE - file.start, file.size), FEW
            while stop > 0:
                begin = max(0, stop - step)
                found = last_address(file.read(begin, stop - begin))
                if found is not None:
                    self._last_extended = (file.start + begin) // UNIT_SIZE + found[0]
                    return found[1]
                stop, step = begin, STEP
        self._last_extended = -1
        return None

    def _written_end(self, mend: bool) -> int:
        """Offset behind the last unit: in the last file that has any, the units before the first empty one."""
        for file in reversed(self.row.files):
            first = file.start // UNIT_SIZE
            count = sound_units(file, file.size // UNIT_SIZE) if mend else units_in_order(file)
            if count:
                return first + count
        return self.row.start // UNIT_SIZE

    def _settle(self, end: int) -> None:
        self.max_offset = self.next_offset = self.inherited = end
        self._flushed = end * UNIT_SIZE
        self.max_position = 0
        for position, size, _ in self.units_back(end):
            if not (position == 0 and size == FILLER_SIZE):
                self.max_position = position + size
                break

    def cut(self, position: int) -> bool:
        """Drop the units of records at or behind a position of the log, and whatever stands behind the last unit.

        Files are made zero rather than deleted, as long as one of them may be needed again: creating thousands of
        files takes minutes.

        Returns:
            Whether something had to be dropped.
        """
        if self._is_trimmed and self.max_position <= position and self.ext is None:
            return False
        end, before = self.max_offset, -1
        while end != before:  # what is out of order hides what is behind the position, and the other way round
            before, end = end, self._unbroken(end)
            for unit_position, _, _ in self.units_back(end):
                if unit_position < position:
                    break
                end -= 1
        changed = end != self.max_offset
        self._settle(end)
        changed |= self.row.cut(end * UNIT_SIZE, keep_first=True)
        return self._settle_ext() or changed

    def drop_empty_files(self) -> None:
        """Delete the files of a queue without units; those of one that begins later say where it goes on."""
        if not self.max_offset:
            self.row.cut(0)

    def _settle_ext(self) -> bool:
        """Let the extension end where the units do; whether that dropped something."""
        return self.ext is not None and self.ext.settle(self._last_address())

    def _unbroken(self, end: int) -> int:
        """The end of what is in order before `end`, within its last file."""
        file = self.row.find(max(end * UNIT_SIZE - 1, 0))
        if file is None:
            return end
        first = file.start // UNIT_SIZE
        return first + sound_units(file, end - first)

    def restart(self) -> None:
        """Begin again at offset zero: the topic was deleted and made again."""
        self.row.delete()
        self._settle(0)
        self._settle_ext()
        self.min_offset = 0

    # --- appending

    def append(
        self,
        requests: Sequence[AnyRequest],
        replay: Replay = Replay.NO,
        bit_maps: BitMaps | None = None,
    ) -> Sequence[AnyRequest]:
        """Add the units of new messages, in order; those that have one already are passed over.

        Args:
            requests: Messages of this queue in log order.
            replay: Where the messages come from.
            bit_maps: Says which filters they pass, for the extension; None when there is nothing to say.

        Returns:
            The requests that were new.

        Raises:
            OffsetGapError: Units before the first new one are missing, and only a part of the log is replayed.
        """
        end = self.max_offset
        if requests[0].queue_offset != end or replay is not Replay.NO:
            requests = self._reconcile(requests, replay)
            if not requests:
                return requests
            end = self.max_offset
        units = requests[0][8] if len(requests) == 1 else b"".join([request[8] for request in requests])
        if bit_maps is None or not self._ext_file_size:
            self._write(end, units)
        else:
            self._write_extended(end, units, entries_of(self.topic, requests, bit_maps))
        last = requests[-1]
        self.max_offset = end = end + len(units) // UNIT_SIZE
        self.max_position = last[2] + last[3]
        if self.next_offset < end:
            self.next_offset = end
        return requests

    def _reconcile(self, requests: Sequence[AnyRequest], replay: Replay) -> Sequence[AnyRequest]:
        """The requests from the first that has no unit yet, with the queue made ready for it."""
        for index, request in enumerate(requests):
            if request.position < self.max_position:
                continue
            if request.queue_offset > self.max_offset:
                self._fill_up_to(request.queue_offset, replay)
            elif request.queue_offset < self.max_offset:
                if request.queue_offset != 0:
                    continue
                self.restart()
            return _consecutive(requests[index:])
        return ()

    def _fill_up_to(self, offset: int, replay: Replay) -> None:
        """Let the queue go on at `offset`, with fillers where its file has no units."""
        if replay is Replay.PART:
            raise OffsetGapError(f"{self.topic} {self.queue_id}: {self.max_offset} is followed by {offset}")
        begin = offset - offset % (self.row.file_size // UNIT_SIZE)
        if self.max_offset < begin and self.row.files:
            self.row.delete()
        begin = max(begin, self.max_offset)
        self._write(begin, _FILLER * (offset - begin))
        self.max_offset = self.min_offset = offset
        self.next_offset = max(self.next_offset, offset)

    def _write_extended(self, offset: int, units: bytes, entries: Sequence[ExtEntry | None]) -> None:
        """Write units, of which those that have an entry lead there in place of their tags code."""
        kept = [(index, entry) for index, entry in enumerate(entries) if entry is not None]
        if not kept:
            self._write(offset, units)
            return
        if self.ext is None:
            self.ext = self._new_ext()
        ext, ext_end, extended = self.ext, self.ext.end, bytearray(units)
        addresses = ext.put([entry for _, entry in kept])
        for (index, _), address in zip(kept, addresses, strict=True):
            pack_code(extended, index, address)
        try:
            self._write(offset, bytes(extended))
        except OSError:
            ext.end = ext_end
            raise
        self._last_extended = offset + kept[-1][0]

    def _write(self, offset: int, units: bytes) -> None:
        """Write units from `offset` on, over as many files as they need."""
        at = offset * UNIT_SIZE
        while units:
            file = self.row.find_or_create(at)
            room = file.start + file.size - at
            if len(units) <= room:
                file.write(units, at - file.start)
                return
            file.write(units[:room], at - file.start)
            units = units[room:]
            at += room

    # --- reading

    def units(self, offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """(position, size, tags code) of up to `count` messages from `offset` on; not past the end of a file."""
        count = min(count, self.max_offset - offset)
        file = self.row.find(offset * UNIT_SIZE)
        if file is None or count <= 0:
            return iter(())
        at = offset * UNIT_SIZE - file.start
        return UNIT.iter_unpack(file.read(at, min(count * UNIT_SIZE, file.size - at)))

    def units_back(self, end: int) -> Iterator[tuple[int, int, int]]:
        """All units before `end`, the last one first."""
        for file in reversed(self.row.files):
            stop = min(end * UNIT_SIZE - file.start, file.size)
            step = FEW  # most readers want the last one alone
            while stop > 0:
                begin = max(0, stop - step)
                yield from reversed(list(UNIT.iter_unpack(file.read(begin, stop - begin))))
                stop, step = begin, STEP

    def unit(self, offset: int) -> tuple[int, int, int] | None:
        """(position, size, tags code) of one message; None when it is not there."""
        return next(self.units(offset, 1), None) if self.min_offset <= offset else None

    def correct_min_offset(self, log_start: int) -> None:
        """Move the first offset to the first unit whose record is still in the log."""
        if log_start == self._log_start:
            return
        low, high = max(self.row.start // UNIT_SIZE, self.min_offset), self.max_offset
        if self.max_position <= log_start:
            low = high  # none of them, and no file is read to say so
        elif self._starts_at_or_behind(low, log_start):
            high = low
        while low < high:
            middle = (low + high) // 2
            if self._starts_at_or_behind(middle, log_start):
                high = middle
            else:
                low = middle + 1
        self.min_offset = low
        self._log_start = log_start

    def _starts_at_or_behind(self, offset: int, log_start: int) -> bool:
        """Whether the record of a unit is still in the log; fillers have none."""
        unit = next(self.units(offset, 1), None)
        return unit is not None and unit[0] >= log_start and unit[1] != FILLER_SIZE

    def delete_expired(self) -> str | None:
        """Delete the first file, here or of the extension, that lies before the first offset; never the last one.

        Returns:
            Its folder; None when there was none to delete.

        Raises:
            OSError: The disk refused; the file stays.
        """
        folder = self.row.delete_first(min(self.min_offset * UNIT_SIZE, self._flushed))
        if folder is None and self.ext is not None:
            address = self.ext.max_address if self._last_extended < self.min_offset else self._first_address()
            folder = None if address is None else self.ext.delete_before(address)
        return folder

    def _first_address(self) -> int | None:
        """Where the first unit leads, of those in its file, that leads to the extension."""
        file = self.row.find(self.min_offset * UNIT_SIZE)
        at = 0 if file is None else self.min_offset * UNIT_SIZE - file.start
        return None if file is None else first_address(file.read(at, file.size - at))

    # --- the disk

    @property
    def unflushed_pages(self) -> int:
        """Pages of 4 KiB with units that the disk may not have, as Java counts them."""
        return self.max_offset * UNIT_SIZE // PAGE - self._flushed // PAGE

    def check(self) -> None:
        """Raise what a close of one of its files failed with, when units were lost by that."""
        for file in () if self.deleted else self.row.files:
            file.check()

    def begin_flush(self) -> int:
        """Note that everything on the disk is about to be flushed. Returns what `end_flush` takes."""
        self.dirty = False
        self.row.entries_synced = self._parents_synced = True
        return self.max_offset * UNIT_SIZE

    def end_flush(self, end: int | None) -> None:
        """Note that it was; None when it was not after all."""
        if end is None:
            self.row.entries_synced = self._parents_synced = False
        else:
            self._flushed = end

    def flush(self) -> None:
        """Return when all units have reached the disk; for threads."""
        self.dirty = False  # before looking how far it goes: what comes later marks it again
        end = self.max_offset * UNIT_SIZE
        try:
            if self.ext is not None:
                self.ext.flush()
            self.row.flush(self._flushed, max(end, self.row.start + 1), apart=True)  # one without units was made zero
            if not self._parents_synced:
                with beginning():
                    self._storage.sync_dir(f"{FOLDER}/{self.topic}")
                    self._storage.sync_dir(FOLDER)
                self._parents_synced = True
        except OSError:
            if not self.deleted:
                raise
        self._flushed = end

    def delete(self) -> None:
        """Delete the files and the folder."""
        self.deleted = True
        self.row.delete()
        if self._storage.is_dir(self.row.folder):
            self._storage.remove_dir(self.row.folder)
        if self.ext is not None:
            self.ext.delete()

    def close(self) -> None:
        """Close the files."""
        self.row.close()
        if self.ext is not None:
            self.ext.close()


def _consecutive(requests: Sequence[AnyRequest]) -> Sequence[AnyRequest]:
    """The first requests whose offsets follow each other."""
    following = requests[0].queue_offset
    for index, request in enumerate(requests):
        if request.queue_offset != following:
            return requests[:index]
        following += len(request.tags_codes)
    return requests
