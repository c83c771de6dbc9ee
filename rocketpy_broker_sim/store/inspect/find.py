"""Finding messages in a store: by key and unique id through the index or in the log itself, by offset id, by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.store.index.keys import hash_of
from rocketpy_broker_sim.store.inspect.index_view import keys_of, open_index, record_at
from rocketpy_broker_sim.store.inspect.message_rows import MAX_BODY, message_row
from rocketpy_broker_sim.store.inspect.units import QueueUnits
from rocketpy_broker_sim.store.inspect.walk import LogWalk

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.inspect.message_rows import Row
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["Finder"]


class Finder:
    """Searches in one store; every message that is found becomes a row."""

    def __init__(self, layout: StoreLayout, *, max_body: int | None = MAX_BODY) -> None:
        """Nothing is read yet.

        Args:
            layout: The store.
            max_body: Bodies longer than that are left out; None shows all of them.
        """
        self._layout = layout
        self._max_body = max_body
        self._units = QueueUnits(layout)

    def by_key(self, topic: str, key: str, *, unique: bool) -> Iterator[Row]:
        """Messages of a topic with a key, the newest first, through the index; messages with the same hash are not.

        A running broker writes its index later than its log, so what lies behind the index is read from the log.

        Args:
            topic: The topic.
            key: A key, or with `unique` a unique id.
            unique: Whether only the unique id counts.
        """
        hashed = hash_of(topic, key)
        late = [record for record in self._behind_index() if _has_key(record, topic, key, unique=unique)]
        yield from map(self._row, reversed(late))
        seen = {record.position for record in late}
        for name in reversed(self._layout.index):
            for entry in open_index(self._layout, name).select(hashed):
                record = record_at(self._layout, entry.position)
                if entry.position not in seen and record is not None and _has_key(record, topic, key, unique=unique):
                    seen.add(entry.position)
                    yield self._row(record)

    def _behind_index(self) -> Iterator[LogRecord]:
        """The records from the last one on that the index files know of."""
        log = self._layout.log
        ends = (open_index(self._layout, name).header.end_position for name in self._layout.index)
        position = max(*ends, log.start)
        while (file := log.find(position)) is not None:
            record = record_at(self._layout, position)
            if record is not None:
                yield record
            position = file.end if record is None else position + record.size

    def by_scan(self, topic: str, key: str, *, unique: bool) -> Iterator[Row]:
        """The same without an index, in the order of the log: every record is looked at."""
        for entry in LogWalk(self._layout.log, check_crc=False):
            if entry.record is not None and _has_key(entry.record, topic, key, unique=unique):
                yield self._row(entry.record)

    def by_id(self, text: str) -> Iterator[Row]:
        """The message that an offset id names.

        Raises:
            ConfigError: This is no such id.
        """
        record = record_at(self._layout, decode_offset_message_id(text)[2])
        if record is not None:
            yield self._row(record)

    def by_time(self, topic: str, timestamp: int) -> Iterator[Row]:
        """Of every queue of a topic the first message that was stored at a time or later.

        Raises:
            ConfigError: There is no such topic.
        """
        keys = [key for key in self._layout.queues if key[0] == topic]
        if not keys:
            raise ConfigError(f"there are no queues of topic {topic!r:.200}")
        for key in keys:
            low, high = self._units.live_begin(key, self._layout.log.start), self._units.end(key)
            end = high
            while low < high:
                middle = (low + high) // 2
                record = self._record(key, middle)
                if record is not None and record.store_timestamp >= timestamp:
                    high = middle
                else:
                    low = middle + 1
            found = self._record(key, low) if low < end else None
            if found is not None:
                yield self._row(found)

    def _record(self, key: tuple[str, int], offset: int) -> LogRecord | None:
        unit = self._units.get(key, offset)
        return None if unit is None else record_at(self._layout, unit[0])

    def _row(self, record: LogRecord) -> Row:
        file = self._layout.log.find(record.position)
        unit = self._units.get((record.topic.decode(), record.queue_id), record.queue_offset)
        pulled = unit is not None and unit[0] == record.position
        data = self._layout.log.read(record.position, record.size)
        start, name = (file.start, file.path.rpartition("/")[2]) if file is not None else (0, "")
        return message_row(data, name, record.position - start, pulled=pulled, max_body=self._max_body)


def _has_key(record: LogRecord, topic: str, key: str, *, unique: bool) -> bool:
    if record.topic.decode() != topic:
        return False
    if unique:
        return (find_property(record.properties, b"UNIQ_KEY") or b"").decode("utf-8", "replace") == key
    return key in keys_of(record)
