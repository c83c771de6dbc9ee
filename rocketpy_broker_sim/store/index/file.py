"""One file of the key index: where messages with a key stand in the commit log, found by the hash of the key.

Forty bytes of header, then slots, then entries. A slot holds the number of the newest entry of its hashes, every entry
the number of the one before it; entry 0 is never used. Here files are read: those that are full, those of other
brokers, and the part that has reached the file of one that still grows. Plays the part of IndexFile and IndexHeader.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import StoreCorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy.seams import File, Storage
    from rocketpy_broker_sim.config import MessageStoreConfig
    from rocketpy_broker_sim.store.steps import Steps

__all__ = ["ENTRY", "FOLDER", "NAME_LENGTH", "SLOT", "IndexEntry", "IndexFile", "IndexHeader", "IndexShape"]

FOLDER = "index"
NAME_LENGTH = 17
"""Digits of a name: the local time of its making, to the millisecond."""
SLOT = struct.Struct(">i")
ENTRY = struct.Struct(">iqii")
_HEADER = struct.Struct(">qqqqii")
LOOK_AT = 64
"""Entries of a chain that one step looks at."""
_STEP = 3200


class IndexShape(NamedTuple):
    """How many slots and entries every file of an index has; entry 0 counts, though it is never used."""

    slots: int
    """Hash slots of a file."""
    entries: int
    """Entries that a file has room for."""

    @classmethod
    def of(cls, config: MessageStoreConfig) -> IndexShape:
        """The shape that the settings ask for."""
        return cls(config.max_hash_slot_num, config.max_index_num)

    @property
    def entries_at(self) -> int:
        """Where the entries begin in a file."""
        return _HEADER.size + self.slots * SLOT.size

    @property
    def size(self) -> int:
        """Bytes of a file."""
        return self.entries_at + self.entries * ENTRY.size


class IndexHeader(NamedTuple):
    """What a file says of itself.

    Attributes:
        begin_timestamp: Store time of the first message; entries count their seconds from there.
        end_timestamp: Store time of the last one.
        begin_position: Where the first message stands in the commit log.
        end_position: Where the last one does.
        slot_count: How many slots are in use.
        next_entry: Number of the next entry; 1 in an empty file.
    """

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_position: int = 0
    end_position: int = 0
    slot_count: int = 0
    next_entry: int = 1

    def pack(self) -> bytes:
        """As it stands in the file."""
        return _HEADER.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> IndexHeader:
        """Out of the first bytes of a file."""
        header = cls(*_HEADER.unpack_from(data))
        return header if header.next_entry > 0 else header._replace(next_entry=1)


class IndexEntry(NamedTuple):
    """One key of one message.

    Attributes:
        hashed: Hash of ``topic#key``, never negative.
        position: Where the message stands in the commit log.
        seconds: When it was stored, from the first message of the file on.
        previous: Number of the entry before it in its slot; 0 for none.
    """

    hashed: int
    position: int
    seconds: int
    previous: int


class IndexFile:
    """One file, for reading.

    Attributes:
        name: Its name within the folder of the index.
        path: Where it lies in the storage.
        shape: How many slots and entries it has.
        header: What it says of itself; as it was loaded, where the file does not grow here.
    """

    def __init__(self, storage: Storage, name: str, shape: IndexShape) -> None:
        self._storage = storage
        self.name = name
        self.path = f"{FOLDER}/{name}"
        self.shape = shape
        self._entries_at = shape.entries_at  # worked out once: a search asks for each entry of a chain
        self.header = IndexHeader()
        self._file: File | None = None

    def load(self) -> None:
        """Read the header.

        Raises:
            StoreCorruptError: The file has another size than its shape says, or its header cannot be.
        """
        file = self._storage.open(self.path)
        try:
            size = file.size()
            if size != self.shape.size:
                raise self._corrupt(f"has {size} bytes where {self.shape.size} are configured")
            header = IndexHeader.unpack(file.pread(_HEADER.size, 0))
        finally:
            file.close()
        if header.next_entry > self.shape.entries or not 0 <= header.begin_position <= header.end_position:
            raise self._corrupt(f"has an invalid header: {header}")
        self.header = header

    def _corrupt(self, what: str) -> StoreCorruptError:
        where = self._storage.describe(self.path)
        return StoreCorruptError(
            f"{where} {what}: delete the folder of the index, it is rebuilt from the commit log", path=self.path
        )

    @property
    def is_full(self) -> bool:
        """Whether no entry fits any more."""
        return self.header.next_entry >= self.shape.entries

    # --- reading

    def head(self, slot: int) -> int:
        """Number of the newest entry of a slot, 0 for none."""
        (value,) = SLOT.unpack(self._read(_HEADER.size + slot * SLOT.size, SLOT.size))
        return value if 0 < value <= self.header.next_entry else 0

    def entry(self, number: int) -> IndexEntry:
        """One entry."""
        at = self._entries_at + number * ENTRY.size
        return IndexEntry._make(ENTRY.unpack(self._read(at, ENTRY.size)))

    def entries(self) -> Iterator[IndexEntry]:
        """Every entry, the oldest first."""
        at, end = self.shape.entries_at + ENTRY.size, self.shape.entries_at + self.header.next_entry * ENTRY.size
        while at < end:
            step = min(_STEP * ENTRY.size, end - at)
            yield from map(IndexEntry._make, ENTRY.iter_unpack(self._read(at, step)))
            at += step

    def slots(self) -> Iterator[tuple[int, int]]:
        """(slot, number of its newest entry) of every slot in use, in order."""
        for begin in range(0, self.shape.slots, _STEP):
            count = min(_STEP, self.shape.slots - begin)
            data = self._read(_HEADER.size + begin * SLOT.size, count * SLOT.size)
            if data.count(0) != len(data):
                for slot, (number,) in enumerate(SLOT.iter_unpack(data), begin):
                    if number > 0:
                        yield slot, number

    def covers(self, begin: int, end: int) -> bool:
        """Whether a span of store times, ms, touches that of the file, by Java's rule."""
        first, last = self.header.begin_timestamp, self.header.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last

    def select(self, found: list[int], hashed: int, most: int, begin: int, end: int) -> Steps[None]:
        """Add the positions of messages whose key has this hash, the newest first, until there are `most`.

        A chain can lead through all entries of the file, so it is followed in steps.

        Args:
            found: What was found before.
            hashed: Hash of ``topic#key``.
            most: How many there may be in `found`.
            begin: The earliest store time, ms; entries know it to the second.
            end: The latest one.
        """
        number, count = self.head(hashed % self.shape.slots), min(self.header.next_entry, self.shape.entries - 1)
        first_second, looked = self.header.begin_timestamp, 0
        while 0 < number <= count and count > 1 and len(found) < most:
            hashed_here, position, seconds, previous = self.entry(number)
            stored = first_second + seconds * 1000
            if seconds < 0:
                return
            if hashed_here == hashed and begin <= stored <= end:
                found.append(position)
            if stored < begin or previous >= number:  # damaged: chains lead back, or they could go in circles
                return
            number = previous
            looked += 1
            if looked % LOOK_AT == 0:
                yield

    def _read(self, position: int, size: int) -> bytes:
        """Bytes that the shape says are there.

        Raises:
            OSError: The disk refused.
            StoreCorruptError: The file has become shorter than it was.
        """
        file = self._opened()
        data = file.pread(size, position)
        if len(data) < size:
            raise self._corrupt(f"ends at {file.size()} of {self.shape.size} bytes")
        return data

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._storage.open(self.path)
        return self._file

    def close(self) -> None:
        """Close the file; it is opened again when it is needed.

        What it says of entries that have not reached the disk is left to the flush that follows: no answer rests on it.
        """
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        self._storage.unlink(self.path)
