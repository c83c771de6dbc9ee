"""Going through a commit log as it lies there: records, fillers, the end, and what is none of them.

Recovery stops at the first thing that is not valid; this goes on behind it. Memory stays flat however large the log is.
Plays no part of Java's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.wire.record import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.inspect.damage import reason_of
from rocketpy_broker_sim.store.log.scan import LogRecord, RecordCheck

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.rows import FileRow, StoreFile

__all__ = ["LogEntry", "LogWalk"]

WINDOW = 4 * 1024 * 1024
_ZEROS = bytes(WINDOW + 8)
_SIZE_AND_MAGIC = struct.Struct(">ii")
_MAGICS = tuple(struct.pack(">i", magic) for magic in (MAGIC_V1, MAGIC_V2))
_STRICT = MessageStoreConfig(enabled_append_prop_crc=True)


class LogEntry(NamedTuple):
    """Something in the log."""

    kind: str
    """message, blank (the filler that closes a file), end (nothing was ever written behind) or damage."""
    position: int
    """Where it begins in the log."""
    size: int
    """Bytes of it; of an end, all that the file has left."""
    file: StoreFile
    """The file that holds it."""
    record: LogRecord | None = None
    """Of a message."""
    reason: str = ""
    """Of damage."""
    followed: bool = False
    """Of damage: whether a valid record follows in the same file."""
    window: bytes = b""
    """Of a message: the part of the file that was read with it."""
    window_at: int = 0
    """Where it begins in the window."""

    @property
    def data(self) -> bytes:
        """The bytes of a message."""
        return self.window[self.window_at : self.window_at + self.size]


class LogWalk:
    """All entries of a log from a position on."""

    def __init__(
        self,
        row: FileRow,
        begin: int = 0,
        *,
        check_crc: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            row: The log.
            begin: Where a record begins, or anything below the first.
            check_crc: Whether to compare checksums.
            progress: Called now and then with the position that was reached.
        """
        self._row = row
        self._begin = begin
        config = _STRICT if check_crc else MessageStoreConfig(check_crc_on_recover=False)
        self._check = RecordCheck(config)
        self._progress = progress

    def __iter__(self) -> Iterator[LogEntry]:
        """Yield the entries in physical order; files that are missing in between are passed over."""
        for file in self._row.files:
            if file.end > self._begin:
                yield from self.of_file(file, max(0, self._begin - file.start))

    def of_file(self, file: StoreFile, at: int = 0) -> Iterator[LogEntry]:
        """The entries of one file, from a byte of it on where a record begins."""
        window, base = b"", 0
        while file.size - at >= _SIZE_AND_MAGIC.size:
            if at - base + MIN_RECORD_SIZE > len(window):
                window, base = self._load(file, at, WINDOW)
                if len(window) < _SIZE_AND_MAGIC.size:
                    return  # the file was cut meanwhile
            size, magic = _SIZE_AND_MAGIC.unpack_from(window, at - base)
            if magic == BLANK_MAGIC and size == file.size - at:
                yield LogEntry("blank", file.start + at, size, file)
                return
            record = None
            if MIN_RECORD_SIZE <= size <= file.size - at:
                if at - base + size > len(window):
                    window, base = self._load(file, at, max(WINDOW, size))
                record = self._check(window, at - base, file.start + at)
            if record is None:
                odd = self._odd(file, at, is_zero=size == magic == 0)
                yield odd
                if not odd.followed:
                    return
                at += odd.size
                continue
            yield LogEntry("message", record.position, size, file, record=record, window=window, window_at=at - base)
            at += size

    def _load(self, file: StoreFile, at: int, size: int) -> tuple[bytes, int]:
        if self._progress is not None:
            self._progress(file.start + at)
        return self._row.scan(file, at, size), at

    def _odd(self, file: StoreFile, at: int, *, is_zero: bool) -> LogEntry:
        """What is no record: the end of the log, or damage up to the next valid record."""
        following, used = self._search(file, at)
        if following is not None:
            reason = "zeros where a record should be" if is_zero else self._reason(file, at)
            return LogEntry("damage", file.start + at, following - at, file, reason=reason, followed=True)
        if is_zero:
            return LogEntry("end", file.start + at, file.size - at, file)
        return LogEntry("damage", file.start + at, max(used - at, 1), file, reason=self._reason(file, at))

    def _reason(self, file: StoreFile, at: int) -> str:
        size, _ = _SIZE_AND_MAGIC.unpack(self._row.scan(file, at, _SIZE_AND_MAGIC.size))
        length = size if MIN_RECORD_SIZE <= size <= file.size - at else MIN_RECORD_SIZE
        return reason_of(self._row.scan(file, at, length), file.start + at, file.size - at)

    def _search(self, file: StoreFile, at: int) -> tuple[int | None, int]:
        """Where in the file the next valid record begins, and behind which byte there is nothing but zeros."""
        used = at
        for base in range(at + 1, file.size, WINDOW):
            window, _ = self._load(file, base, WINDOW + 8)
            if _ZEROS.startswith(window):  # much faster than looking for their end, and most of a new file
                continue
            used = base + len(window.rstrip(b"\0"))
            found = self._search_window(file, base, window)
            if found is not None:
                return found, used
        return None, used

    def _search_window(self, file: StoreFile, base: int, window: bytes) -> int | None:
        hits = []
        for magic in _MAGICS:
            hit = window.find(magic, 4)
            while hit >= 0:
                hits.append(hit - 4)
                hit = window.find(magic, hit + 1)
        for hit in sorted(hits):
            at = base + hit
            size = int.from_bytes(window[hit : hit + 4], "big", signed=True)
            if MIN_RECORD_SIZE <= size <= file.size - at:
                data = self._row.scan(file, at, size)
                if self._check(data, 0, file.start + at) is not None:
                    return at
        return None
