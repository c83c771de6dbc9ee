"""The commit log: all records of all topics, one behind the other, over files of one size.

A record never crosses files: what does not fit goes to the next one, and the rest of the file becomes a filler of at
least eight bytes. Records gather in memory at their final positions and leave with one write a file. Nothing here
knows queues. Plays the part of CommitLog and of MappedFileQueue's flushing.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from rocketpy.wire.record import (
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SYS_FLAG_AT,
    encode_blank,
    store_timestamp_at,
)
from rocketpy_broker_sim.store.disk.failure import (
    FileCreationError,
    FlushPostponedError,
    NotBegunError,
    UnknownOutcomeError,
    store_error,
)
from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocketpy.errors import StoreError
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.disk.mapped_file import MappedFile

__all__ = ["FOLDER", "CommitLog"]

FOLDER = "commitlog"
NEAR = 2048
"""Records with no more than this between them, on average, are read with one call: to copy what lies between costs less
than another call."""
MOST_SPAN = 1024 * 1024
_INT32 = struct.Struct(">i")
_START = struct.Struct(">ii20xq")  # size, magic, ..., position
_INT64 = struct.Struct(">q")


class CommitLog:
    """Appends records at positions handed out before, reads them back, and knows how far the disk has them.

    Attributes:
        row: The files.
        position: Where the next record would go; counts what has gathered but is not written.
        written: (position, store timestamp of the last record) up to which records are written.
        flushed: Position up to which the disk has them. Changed by the flushing thread alone.
        flushed_timestamp: Store timestamp of the last of those.
        failure: Set once a flush has failed: what the disk really has is then unknown until the store is reopened.
        is_torn: Whether a part of a chunk that was taken back may still stand behind the end, as the disk refused that,
            too. A crash would bring it back to life before `mend` or the next write.
    """

    def __init__(self, storage: Storage, file_size: int) -> None:
        self._storage = storage
        self.row = MappedFileQueue(storage, FOLDER, file_size)
        self.position = 0
        self.written = (0, 0)
        self.flushed = 0
        self.flushed_timestamp = 0
        self.failure: StoreError | None = None
        self._file_end = file_size
        self._gathered: list[bytes] = []
        self._closed_parts: list[tuple[int, list[bytes]]] = []  # parts of the chunk that end with a filler
        self._part_start = 0
        self._is_creating = False
        self.is_torn = False

    # --- appending

    def reset(self, position: int, store_timestamp: int, flushed: int) -> None:
        """Go on at `position` after loading, whatever was known before."""
        self.written = (position, store_timestamp)
        self.flushed = flushed
        self.flushed_timestamp = store_timestamp
        self._rewind()

    def fits(self, size: int) -> bool:
        """Whether a file can hold a record, or the records of a batch, of `size` bytes at all."""
        return size + BLANK_SIZE <= self.row.file_size

    @property
    def room(self) -> int:
        """Bytes that can be reserved before the next file begins."""
        return self._file_end - BLANK_SIZE - self.position

    def reserve(self, size: int) -> int:
        """The position of the next `size` bytes, rolling to the next file when this one cannot hold them."""
        position = self.position
        if position + size + BLANK_SIZE > self._file_end:
            position = self._roll()
        self.position = position + size
        return position

    def add(self, record: bytes) -> None:
        """Gather a record for the position that was reserved for it; in order."""
        self._gathered.append(record)

    def add_all(self, records: Iterable[bytes]) -> None:
        """The same for several records, which were reserved together."""
        self._gathered.extend(records)

    def _roll(self) -> int:
        self._gathered.append(encode_blank(self._file_end - self.position))
        self._closed_parts.append((self._part_start, self._gathered))
        self._gathered = []
        self.position = self._part_start = self._file_end
        self._file_end += self.row.file_size
        return self.position

    def commit(self, store_timestamp: int) -> None:
        """Write what has gathered, with one write a file.

        Raises:
            UnknownOutcomeError: The disk refused, now and when what was written was to be made zero again, which is
                tried again before anything else is written. Only a crash before that can bring it back.
            StoreError: The disk refused. Nothing of the chunk counts: positions go back to where it began, and what
                part of it was written is zero again.
        """
        self._is_creating = False
        has_begun = False
        try:
            self.mend()
            has_begun = True
            for start, records in self._closed_parts:
                self._write(start, records)
            if self._gathered:
                self._write(self._part_start, self._gathered)
        except OSError as exc:
            self._take_back()
            error = store_error(exc, "writing to the commit log", self._storage.describe(FOLDER))
            if has_begun and self.is_torn:
                text = f"{error}; part of it may have been written, and could not be taken back: it is tried again"
                raise UnknownOutcomeError(text) from exc
            raise (FileCreationError(str(error)) if self._is_creating else error) from exc
        self._note_written(store_timestamp)
        self._gathered = []
        self._closed_parts.clear()
        self._part_start = self.position

    def _note_written(self, store_timestamp: int) -> None:
        self.written = (self.position, store_timestamp)

    @property
    def appended(self) -> int:
        """Where the next chunk goes: up to here the log is taken, though the files may not have all of it yet."""
        return self.written[0]

    def _write(self, start: int, records: list[bytes]) -> None:
        self._is_creating = True
        file = self.row.find_or_create(start)
        self._is_creating = False
        file.write(b"".join(records) if len(records) > 1 else records[0], start - file.start)

    def _take_back(self) -> None:
        """Forget the chunk. Records of it that stayed on the disk could come back to life after a crash."""
        self._rewind()
        again, self.is_torn = self.is_torn, True
        with suppress(OSError):
            self._undo(again=again)

    def mend(self) -> None:
        """Make zero what could not be made zero when a write failed.

        Raises:
            OSError: The disk still refuses.
        """
        if self.is_torn:
            self._undo(again=True)

    def _undo(self, *, again: bool) -> None:
        """Make zero what was written of a chunk, and let that reach the disk: its senders are about to be told.

        Args:
            again: Flush also what is zero already, as an attempt before this one may have got so far.
        """
        position = self.written[0]
        for file in self.row.files:
            if file.end > position and (file.clear_from(max(0, position - file.start)) or again):
                self._flush_undone(file)
        self.is_torn = False

    def _flush_undone(self, file: MappedFile) -> None:
        try:
            file.flush()
        except NotBegunError:
            raise
        except OSError as exc:
            where = self._storage.describe(FOLDER)
            self.failure = store_error(exc, "flushing what was taken back of a failed write", where, fatal=True)
            raise

    def _rewind(self) -> None:
        """Let the next record go right behind what is written."""
        self.position = self._part_start = self.appended
        size = self.row.file_size
        self._file_end = self.position - self.position % size + size
        self._gathered = []
        self._closed_parts.clear()

    # --- reading

    @property
    def start(self) -> int:
        """Position of the oldest byte that is kept."""
        return self.row.start

    def read(self, position: int, size: int) -> bytes | None:
        """The bytes of a record, or of records that lie side by side in one file; None when they are not there."""
        if position + size > self.written[0] or size <= 0:
            return None
        file = self.row.find(position)
        if file is None or position + size > file.end:
            return None
        return file.read(position - file.start, size)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> bytes:
        """The bytes of several (begin, end), joined. Each must be written, kept, and within one file."""
        if len(ranges) == 1:
            begin, end = ranges[0]
            return self.read(begin, end - begin) or b""
        pieces = self._read_span(ranges) or self._read_each(ranges)
        return b"".join(pieces)

    def _read_span(self, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """The bytes of ranges that lie close to each other, with one call; nothing where they do not."""
        if not ranges:
            return ()
        first, last = ranges[0][0], ranges[-1][1]
        file = self.row.find(first)
        if file is None or last > file.end or not 0 < last - first <= MOST_SPAN:
            return ()
        if last - first > sum([end - begin for begin, end in ranges]) + NEAR * len(ranges):
            return ()
        try:
            data = file.read(first - file.start, last - first)
        except OSError:
            return ()  # what lies between may be what the disk cannot give
        return [data[begin - first : end - first] for begin, end in ranges]

    def _read_each(self, ranges: Iterable[tuple[int, int]]) -> Sequence[bytes]:
        """The bytes of ranges anywhere."""
        pieces: list[bytes] = []
        start = file_end = 0
        for begin, end in ranges:
            if not start <= begin < file_end:
                file = self.row.find(begin)
                if file is None:
                    continue
                start, file_end, read = file.start, file.end, file.read
            pieces.append(read(begin - start, end - begin))
        return pieces

    def fetch(self, begin: int, end: int) -> None:
        """Begin to bring what lies between two positions of one file into memory, without waiting for it."""
        file = self.row.find(begin)
        if file is not None:
            file.fetch(begin - file.start, min(end, file.end) - begin)

    def record_size(self, position: int) -> int:
        """Bytes of the record that begins at `position`; 0 when none begins there."""
        file = self.row.find(position)
        if file is None or position + MIN_RECORD_SIZE > min(self.written[0], file.end):
            return 0
        size, magic, own_position = _START.unpack(file.read(position - file.start, _START.size))
        return size if magic in (MAGIC_V1, MAGIC_V2) and own_position == position else 0

    def store_timestamp(self, position: int, size: int) -> int:
        """When the record was stored, ms; -1 when it is not there any more."""
        file = self.row.find(position)
        if file is None or position + max(size, MIN_RECORD_SIZE) > min(self.written[0], file.end):
            return -1
        head = file.read(position - file.start, MIN_RECORD_SIZE)
        timestamp: int = _INT64.unpack_from(head, store_timestamp_at(_INT32.unpack_from(head, SYS_FLAG_AT)[0]))[0]
        return timestamp

    # --- the disk

    def flush(self) -> None:
        """Return when everything written so far has reached the disk. For threads; the loop may go on appending.

        Raises:
            FlushPostponedError: The disk could not be asked; a later call tries it again.
            StoreError: The disk failed, now or before.
        """
        if self.failure is not None:
            raise self.failure
        target, timestamp = self.written
        if target <= self.flushed:
            return
        try:
            self.row.flush(self.flushed, target)
        except NotBegunError as exc:
            error = store_error(exc, "flushing the commit log", self._storage.describe(FOLDER))
            raise FlushPostponedError(str(error)) from exc
        except OSError as exc:
            self.failure = store_error(exc, "flushing the commit log", self._storage.describe(FOLDER), fatal=True)
            raise self.failure from exc
        self.flushed, self.flushed_timestamp = target, timestamp

    def close(self) -> None:
        """Close the files."""
        self.row.close()
