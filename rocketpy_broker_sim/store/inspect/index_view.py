"""Index files as they lie there: headers, slots and entries as rows, and the keys that entries were made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.errors import ConfigError, StoreCorruptError
from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.index.file import ENTRY, FOLDER, SLOT, IndexEntry, IndexHeader, IndexShape
from rocketpy_broker_sim.store.index.keys import hash_of
from rocketpy_broker_sim.store.inspect.index_shape import HEADER_SIZE, shape_of
from rocketpy_broker_sim.store.log.scan import LogRecord, RecordCheck

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.inspect.message_rows import Row

__all__ = ["IndexView", "keys_of", "open_index", "record_at"]

_STEP = 3200
_LAX = RecordCheck(MessageStoreConfig(check_crc_on_recover=False))


class IndexView(NamedTuple):
    """One file of the index, for looking at."""

    layout: StoreLayout
    """The store that it is in."""
    name: str
    """Its name within the folder of the index."""
    shape: IndexShape
    """How many slots and entries it has."""
    header: IndexHeader
    """What its header says."""

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{FOLDER}/{self.name}"

    @property
    def used(self) -> int:
        """Entries that are in use, the one that never is left out."""
        return max(0, min(self.header.next_entry, self.shape.entries) - 1)

    def head(self, slot: int) -> int:
        """Number of the newest entry of a slot; 0 for none and for what cannot be."""
        data = self.layout.opened.read(self.path, SLOT.size, HEADER_SIZE + slot * SLOT.size)
        value: int = SLOT.unpack(data)[0]
        return value if 0 < value <= self.used else 0

    def entry(self, number: int) -> IndexEntry:
        """One entry."""
        data = self.layout.opened.read(self.path, ENTRY.size, self.shape.entries_at + number * ENTRY.size)
        return IndexEntry._make(ENTRY.unpack(data))

    def entries(self) -> Iterator[tuple[int, IndexEntry]]:
        """(number, entry) of all in use, the oldest first."""
        for begin in range(1, self.used + 1, _STEP):
            count = min(_STEP, self.used + 1 - begin)
            at = self.shape.entries_at + begin * ENTRY.size
            data = self.layout.opened.read(self.path, count * ENTRY.size, at)
            whole = len(data) - len(data) % ENTRY.size
            yield from enumerate(map(IndexEntry._make, ENTRY.iter_unpack(data[:whole])), begin)

    def slots(self) -> Iterator[tuple[int, int]]:
        """(slot, number of its newest entry) of all in use, whatever the number is."""
        for begin in range(0, self.shape.slots, _STEP):
            size = min(_STEP, self.shape.slots - begin) * SLOT.size
            data = self.layout.opened.read(self.path, size, HEADER_SIZE + begin * SLOT.size)
            if any(data):
                for slot, (number,) in enumerate(SLOT.iter_unpack(data), begin):
                    if number:
                        yield slot, number

    def select(self, hashed: int) -> Iterator[IndexEntry]:
        """The entries with a hash, the newest first."""
        number = self.head(hashed % self.shape.slots)
        while number > 0:
            entry = self.entry(number)
            if entry.hashed == hashed:
                yield entry
            if entry.previous >= number:  # chains only lead back; anything else could go in circles
                return
            number = entry.previous

    # --- rows

    def row(self) -> Row:
        """The file as a whole, its header under Java's names."""
        header = self.header
        return {
            "kind": "indexFile",
            "name": self.name,
            "size": self.shape.size,
            "slots": self.shape.slots,
            "entries": self.shape.entries,
            "beginTimestamp": header.begin_timestamp,
            "endTimestamp": header.end_timestamp,
            "beginPhyOffset": header.begin_position,
            "endPhyOffset": header.end_position,
            "hashSlotCount": header.slot_count,
            "indexCount": header.next_entry,
        }

    def slot_rows(self) -> Iterator[Row]:
        """The slots in use, in order, with where they stand in the file."""
        for slot, number in self.slots():
            at = HEADER_SIZE + slot * SLOT.size
            yield {"kind": "slot", "offset": at, "slot": slot, "entry": number}

    def entry_rows(self) -> Iterator[Row]:
        """The entries in use, in order, with where they stand in the file and the key that each was made of."""
        for number, entry in self.entries():
            topic, key = _key_of(self.layout, entry)
            yield {
                "kind": "entry",
                "offset": self.shape.entries_at + number * ENTRY.size,
                "number": number,
                "slot": entry.hashed % self.shape.slots if entry.hashed >= 0 else None,
                "keyHash": entry.hashed,
                "phyOffset": entry.position,
                "timeDiffSeconds": entry.seconds,
                "previous": entry.previous,
                "topic": topic,
                "key": key,
            }


def open_index(layout: StoreLayout, name: str) -> IndexView:
    """One file of the index.

    Raises:
        ConfigError: There is no such file.
        StoreCorruptError: It has not the size that the settings say, or nothing in it agrees with any.
        StoreError: It cannot be read.
    """
    if name not in layout.index:
        raise ConfigError(f"there is no index file {name!r:.60}; there are {', '.join(layout.index) or 'none'}")
    path = f"{FOLDER}/{name}"
    size = layout.opened.size(path)
    shape = shape_of(layout, name)
    if shape is None or shape.size != size:
        wrong = "has a content that fits no number of slots" if shape is None else f"has {size} bytes, not {shape.size}"
        raise StoreCorruptError(
            f"{layout.storage.describe(path)} {wrong}: it is damaged, or was made with other settings "
            "(maxHashSlotNum, maxIndexNum in -c broker.conf)",
            path=path,
            offset=0,
        )
    header = IndexHeader.unpack(layout.opened.read(path, HEADER_SIZE, 0))
    return IndexView(layout, name, shape, header)


def record_at(layout: StoreLayout, position: int) -> LogRecord | None:
    """The record that begins at a position of the log; None when none does."""
    if position < 0:
        return None
    size = int.from_bytes(layout.log.read(position, 4), "big", signed=True)
    file = layout.log.find(position)
    if file is None or not 0 < size <= file.end - position:
        return None
    return _LAX(layout.log.read(position, size), 0, position)


def keys_of(record: LogRecord) -> list[str]:
    """What a message is indexed under: its unique id, then its keys."""
    unique, keys = find_property(record.properties, b"UNIQ_KEY"), find_property(record.properties, b"KEYS")
    found = [] if unique is None else [unique.decode("utf-8", "replace")]
    return found + [key for key in (keys or b"").decode("utf-8", "replace").split(" ") if key]


def _key_of(layout: StoreLayout, entry: IndexEntry) -> tuple[str | None, str | None]:
    """Topic and key of an entry, from the message; None when that is gone or has no such key."""
    record = record_at(layout, entry.position)
    if record is None:
        return None, None
    topic = record.topic.decode()
    return topic, next((key for key in keys_of(record) if hash_of(topic, key) == entry.hashed), None)
