"""The extension of one consume queue, which keeps the bit maps of messages beside the queue's units of twenty bytes.

An entry has the tags code, the store time, and a bit map of the filters that the message matches. The unit of the queue
then has the address of the entry in place of the tags code: the entry's position, shifted below all values that a tags
code can have. Messages without a bit map have no entry, and an ordinary unit. Entries follow each other without gaps.
An entry never crosses files, and a size of -1 closes a file. Plays the part of ConsumeQueueExt and CqExtUnit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.disk.failure import beginning
from rocketpy_broker_sim.store.disk.mapped_file_queue import MappedFileQueue

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.filtering import BitMaps, ByBits, ByCode
    from rocketpy_broker_sim.store.queue.dispatch_request import AnyRequest

__all__ = ["FOLDER", "LAST_ADDRESS", "ConsumeQueueExt", "ExtEntry", "entries_of", "is_address"]

FOLDER = "consumequeue_ext"
LAST_ADDRESS = -0x80000001
"""Tags codes are signed 32-bit numbers, or times; anything up to this value is an address."""
_FIRST_ADDRESS = -(2**63)
_HEAD = struct.Struct(">hqqh")  # size, tags code, store time, bytes of the bit map
_SIZE = struct.Struct(">h")
_CLOSED = _SIZE.pack(-1)
_READ_AHEAD = 4096
_LARGEST = 256
"""Bytes that nearly every entry fits into."""
_NONE = (0, 0, 0, 0)
"""The head of no entry."""
_RESERVED = 4
"""Bytes at the end of a file that entries leave free."""

log = get_logger(__name__)


class ExtEntry(NamedTuple):
    """The entry of one message."""

    tags_code: int
    """What the unit of the queue would have in its place: the hash of the tag, or a time."""
    store_timestamp: int
    """When the message was stored, ms since 1970."""
    bit_map: bytes = b""
    """Bits of the filters that it matches; empty for none."""

    def encode(self) -> bytes:
        """The entry as it is stored."""
        size = _HEAD.size + len(self.bit_map)
        return _HEAD.pack(size, self.tags_code, self.store_timestamp, len(self.bit_map)) + self.bit_map


def entries_of(topic: str, requests: Iterable[AnyRequest], bit_maps: BitMaps) -> list[ExtEntry | None]:
    """The entries of new messages of a topic; None for a message without a bit map."""
    return [
        ExtEntry(code, request[5], bits) if bits else None
        for request in requests
        for code, bits in zip(request[4], bit_maps.of(topic, request[7]), strict=True)
    ]


def is_address(tags_code: int) -> bool:
    """Whether the value in a unit's field for the tags code is the address of an entry."""
    return tags_code <= LAST_ADDRESS


class ConsumeQueueExt:
    """The entries of one queue of one topic.

    Attributes:
        row: The files.
        end: Position after the last entry, where the next one is written if its file has room.
    """

    __slots__ = ("_flushed", "_parents_synced", "_storage", "_topic_folder", "end", "row")

    def __init__(
        self, storage: Storage, topic: str, queue_id: int, file_size: int, on_open: Callable[[], None] | None = None
    ) -> None:
        """Prepare it; `load` reads the files."""
        self._storage = storage
        self._topic_folder = f"{FOLDER}/{topic}"
        self.row = MappedFileQueue(storage, f"{self._topic_folder}/{queue_id}", file_size, on_open)
        self.end = 0
        self._flushed = 0
        self._parents_synced = False

    # --- loading

    def load(self, *, safe: int | None = None) -> bool:
        """Load the files; `settle` finds the last entry."""
        return self.row.load(safe=safe)

    def settle(self, address: int | None) -> bool:
        """Continue after the entry that the queue's last unit refers to, and drop later entries.

        Args:
            address: The address in the last unit that has one; None if no unit has.

        Returns:
            Whether entries were dropped.
        """
        if address is None:
            return self._restart(0)
        position = address - _FIRST_ADDRESS
        entry = self.get(address)
        if entry is None:
            log.warning("%s has lost entries: the next ones begin in a file of their own", self.row.folder)
            # Not at positions that existing units refer to: their entries would be taken for those of other messages.
            return self._restart(position - position % self.row.file_size + self.row.file_size)
        self.end = position + _HEAD.size + len(entry.bit_map)
        self._flushed = self.end
        return self.row.cut(self.end)

    def _restart(self, position: int) -> bool:
        """Drop all entries, and write the next one at a position."""
        had_files = bool(self.row.files)
        self.row.delete()
        self.end = self._flushed = position
        return had_files

    # --- writing

    def put(self, entries: Sequence[ExtEntry]) -> list[int]:
        """Add entries, and return their addresses.

        Raises:
            OSError: The disk refused; none of them counts.
        """
        addresses: list[int] = []
        begin = end = self.end
        gathered: list[bytes] = []
        for entry in entries:
            data = entry.encode()
            file_end = end - end % self.row.file_size + self.row.file_size
            if end + len(data) + _RESERVED > file_end:
                self._write(begin, [*gathered, _CLOSED])
                begin, end, gathered = file_end, file_end, []
            addresses.append(end + _FIRST_ADDRESS)
            gathered.append(data)
            end += len(data)
        self._write(begin, gathered)
        self.end = end
        return addresses

    def _write(self, position: int, parts: list[bytes]) -> None:
        if parts:
            file = self.row.find_or_create(position)
            file.write(b"".join(parts), position - file.start)

    # --- reading

    def get(self, address: int) -> ExtEntry | None:
        """The entry at an address; None if it is not an address, or there is no entry."""
        position = address - _FIRST_ADDRESS
        file = self.row.find(position) if is_address(address) else None
        if file is None or position + _HEAD.size > file.end:
            return None
        size, tags_code, store_timestamp, length = _HEAD.unpack(file.read(position - file.start, _HEAD.size))
        if size < _HEAD.size or length != size - _HEAD.size or position + size > file.end:
            return None
        bit_map = file.read(position - file.start + _HEAD.size, length) if length else b""
        return ExtEntry(tags_code, store_timestamp, bit_map)

    def tester(self, by_code: ByCode | None, by_bits: ByBits | None) -> Callable[[int], bool]:
        """Says by the address of an entry whether a reader wants it, who asks for entries in a row. Not to be kept.

        Args:
            by_code: Looks at its tags code.
            by_bits: Looks at its bit map, where it has one.
        """
        window, first, last = b"", 0, -1  # a few kilobytes of entries; up to `last` each is whole
        head, unpack = _HEAD.size, _HEAD.unpack_from

        def is_wanted(address: int) -> bool:
            nonlocal window, first, last
            at = address - first
            if not 0 <= at <= last:
                window, first, at = self._window(address), address, 0
                last = len(window) - _LARGEST
            size, code, stored, length = unpack(window, at) if at + head <= len(window) else _NONE
            end = at + size
            if length == size - head and end <= len(window):
                bit_map = window[at + head : end]
            else:
                entry = self.get(address)
                if entry is None:
                    return True  # nothing is known of it: consumers check tags themselves
                code, stored, bit_map = entry
            if by_code is not None and not by_code(code):
                return False
            return by_bits is None or not bit_map or by_bits(bit_map, stored)

        return is_wanted

    def _window(self, address: int) -> bytes:
        position = address - _FIRST_ADDRESS
        file = self.row.find(position) if is_address(address) else None
        return b"" if file is None else file.read(position - file.start, _READ_AHEAD)

    @property
    def max_address(self) -> int:
        """Behind the last entry."""
        return self.end + _FIRST_ADDRESS

    # --- cleaning

    def delete_before(self, address: int) -> str | None:
        """Delete the first file if it lies wholly before an address; never the last one.

        Returns:
            Its folder; None when there was none to delete.

        Raises:
            OSError: The disk refused; the file stays.
        """
        return self.row.delete_first(min(address - _FIRST_ADDRESS, self._flushed))

    def delete(self) -> None:
        """Delete the files and the folder."""
        self.row.delete()
        if self._storage.is_dir(self.row.folder):
            self._storage.remove_dir(self.row.folder)

    # --- the disk

    def flush(self) -> None:
        """Return when all entries have reached the disk; for threads."""
        end = self.end
        self.row.flush(self._flushed, end, apart=True)
        if not self._parents_synced and self.row.files:
            with beginning():
                self._storage.sync_dir(self._topic_folder)
                self._storage.sync_dir(FOLDER)
            self._parents_synced = True
        self._flushed = end

    def close(self) -> None:
        """Close the files."""
        self.row.close()
