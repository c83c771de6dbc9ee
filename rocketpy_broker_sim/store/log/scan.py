"""Walking the commit log record by record and checking each: for recovery, which trusts nothing it has not seen.

A record counts when its magic number, its sizes, its own position and its checksums are right. Reads past the
mapping, because parts of the files may never have been written.
Plays the part of CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.wire.names import is_valid_stored_topic
from rocketpy.wire.record import (
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    has_valid_crc_property,
    head_layout,
)
from rocketpy.wire.sysflag import BORN_HOST_V6, STORE_HOST_V6

if TYPE_CHECKING:
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.disk.mapped_file import MappedFile
    from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue

__all__ = ["LogRecord", "LogScan", "find_record"]

WINDOW = 4 * 1024 * 1024
_HOSTS_V6 = BORN_HOST_V6 | STORE_HOST_V6
_HEAD_V4 = head_layout(0)
_SIZE_AND_MAGIC = struct.Struct(">ii")
_LENGTH_16 = struct.Struct(">H")
_NOWHERE = 1 << 63
_MAGICS = tuple(struct.pack(">i", magic) for magic in (MAGIC_V1, MAGIC_V2))


class LogRecord(NamedTuple):
    """What recovery needs of a record."""

    topic: bytes
    """Its topic, encoded."""
    queue_id: int
    """The number of its queue."""
    queue_offset: int
    """Its offset in the queue."""
    position: int
    """Where it begins in the log."""
    size: int
    """Bytes of the whole record."""
    sys_flag: int
    """The flag word of the message, see `rocketpy.wire.sysflag`."""
    store_timestamp: int
    """When it was stored, ms since 1970."""
    properties: bytes
    """Its properties, encoded."""


class LogScan:
    """All valid records from a position on, file after file.

    Attributes:
        position: While and after iterating: where the next record would be.
        last_timestamp: Store timestamp of the last record seen, 0 before the first.
    """

    def __init__(
        self,
        row: MappedFileQueue,
        position: int,
        config: MessageStoreConfig,
        sealed_from: int | None = None,
        *,
        window: int = WINDOW,
    ) -> None:
        """Begin at a position where a record stands.

        Args:
            row: The files of the log.
            position: Where to begin.
            config: What is checked.
            sealed_from: Position from which on every record must end with its own checksum; None for nowhere.
            window: Bytes that are read at a time; few for who wants few records.
        """
        self._row = row
        self._window = window
        self._check = RecordCheck(config, sealed_from)
        self.position = position
        self.last_timestamp = 0

    def __iter__(self) -> Iterator[LogRecord]:
        """Yield until something is no valid record."""
        while (file := self._row.find(self.position)) is not None:
            yield from self._of(file)
            if self.position != file.end:
                return

    def _of(self, file: MappedFile) -> Iterator[LogRecord]:
        """The records of one file; `position` stands at its end only when a filler closes it."""
        window, base = b"", 0
        while True:
            at = self.position - file.start
            left = file.size - at
            if left < _SIZE_AND_MAGIC.size:
                return
            if at - base + _SIZE_AND_MAGIC.size > len(window):
                window, base = file.read(at, self._window), at
            size, magic = _SIZE_AND_MAGIC.unpack_from(window, at - base)
            if magic == BLANK_MAGIC and size == left:
                self.position = file.end
                return
            if magic not in (MAGIC_V1, MAGIC_V2) or not MIN_RECORD_SIZE <= size <= left:
                return  # before as much is read as garbage asks for
            if at - base + size > len(window):
                window, base = file.read(at, max(self._window, size)), at
            record = self._check(window, at - base, self.position)
            if record is None:
                return
            self.position += size
            self.last_timestamp = record.store_timestamp
            yield record


class RecordCheck:
    """Says whether bytes are a valid record for their place.

    A torn record may have lost its checksum with its end. Whether one without is a torn one or an old one is told by
    its position alone.
    """

    def __init__(self, config: MessageStoreConfig, sealed_from: int | None = None) -> None:
        self._check_crc = config.check_crc_on_recover
        self._need_from = 0 if config.force_verify_prop_crc else _NOWHERE if sealed_from is None else sealed_from
        self._check_property = config.enabled_append_prop_crc or self._need_from < _NOWHERE

    def __call__(self, data: bytes, at: int, position: int) -> LogRecord | None:
        """The record at `at` of `data`, which must lie at `position` of the log; None when it is not valid."""
        if len(data) - at < MIN_RECORD_SIZE:
            return None
        layout, head = _HEAD_V4, _HEAD_V4.unpack_from(data, at)
        if head[7] & _HOSTS_V6:
            layout = head_layout(head[7])
            if len(data) - at < layout.size:
                return None
            head = layout.unpack_from(data, at)
        size, magic, body_size = head[0], head[1], head[14]
        end = at + size
        if end > len(data) or head[6] != position or magic not in (MAGIC_V1, MAGIC_V2) or body_size < 0:
            return None
        body_at = at + layout.size
        topic_at = body_at + body_size + (1 if magic == MAGIC_V1 else 2)
        parts = _topic_and_properties(data, topic_at, end)
        body = memoryview(data)[body_at : body_at + body_size]
        if parts is None or not self._is_sound(data, at, end, head[2], body, position >= self._need_from):
            return None
        return LogRecord(parts[0], head[3], head[5], position, size, head[7], head[10], parts[1])

    def _is_sound(self, data: bytes, at: int, end: int, body_crc: int, body: memoryview, sealed: bool) -> bool:
        if self._check_crc and body and zlib.crc32(body) & 0x7FFFFFFF != body_crc:
            return False
        if not self._check_property:
            return True
        right = has_valid_crc_property(data, at, end)
        return right is True or (right is None and not sealed)


def _topic_and_properties(data: bytes, topic_at: int, end: int) -> tuple[bytes, bytes] | None:
    """The two last parts of a record, when their lengths fill it exactly."""
    if topic_at + 2 > end:
        return None
    # A topic of version 1 has one length byte, of version 2 two, the first of which is zero for up to 255 bytes.
    topic_end = topic_at + data[topic_at - 1]
    if topic_end + 2 > end:
        return None
    properties_at = topic_end + 2
    if properties_at + _LENGTH_16.unpack_from(data, topic_end)[0] != end:
        return None
    topic = data[topic_at:topic_end]
    return (topic, data[properties_at:end]) if _is_topic(topic) else None


@lru_cache(maxsize=4096)
def _is_topic(name: bytes) -> bool:
    """Whether records may carry this topic; it is about to become the name of a folder."""
    return name.isascii() and is_valid_stored_topic(name.decode())


def find_record(
    row: MappedFileQueue, position: int, config: MessageStoreConfig, sealed_from: int | None = None
) -> LogRecord | None:
    """The first valid record behind `position`, wherever it begins; None when there is none."""
    check = RecordCheck(config, sealed_from)
    for file in row.files:
        if file.end <= position:
            continue
        found = _find_in(file, max(position + 1 - file.start, 0), check)
        if found is not None:
            return found
    return None


def _find_in(file: MappedFile, begin: int, check: RecordCheck) -> LogRecord | None:
    for base in range(begin, file.size, WINDOW):
        window = file.read(base, WINDOW + len(_MAGICS[0]) + 4)
        for magic in _MAGICS:
            hit = window.find(magic, 4)
            while hit >= 0:
                at = base + hit - 4
                size = int.from_bytes(window[hit - 4 : hit], "big", signed=True)
                if MIN_RECORD_SIZE <= size <= file.size - at:
                    record = check(file.read(at, size), 0, file.start + at)
                    if record is not None:
                        return record
                hit = window.find(magic, hit + 1)
    return None
