"""A consume queue unit by unit, and joined with the log: the rows of ``consumequeue`` and ``messages``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.store.inspect.damage import reason_of
from rocketpy_broker_sim.store.inspect.message_rows import MAX_BODY, message_row
from rocketpy_broker_sim.store.inspect.units import QueueUnits, is_filler
from rocketpy_broker_sim.store.log.scan import RecordCheck
from rocketpy_broker_sim.store.queue.consume_queue_ext import is_address

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout
    from rocketpy_broker_sim.store.inspect.message_rows import Row

__all__ = ["QueueView"]

_STRICT = MessageStoreConfig(enabled_append_prop_crc=True)


class QueueView:
    """One queue of a store."""

    def __init__(self, layout: StoreLayout, topic: str, queue_id: int) -> None:
        """Find the queue.

        Raises:
            ConfigError: There is no such queue.
        """
        self._layout = layout
        self._key: QueueKey = (topic, queue_id)
        if self._key not in layout.queues:
            raise ConfigError(_not_found(layout, topic, queue_id))
        self._units = QueueUnits(layout)
        self._check = RecordCheck(_STRICT)
        self.begin = self._units.live_begin(self._key, layout.log.start)
        self.end = self._units.end(self._key)

    def unit_rows(self, begin: int | None = None, limit: int | None = None) -> Iterator[Row]:
        """The units from an offset on, those of messages that are gone included when asked for by offset."""
        first = self.begin if begin is None else max(begin, self._units.begin(self._key))
        end = self.end if limit is None else min(self.end, first + limit)
        for offset, unit in self._units.walk(self._key, first, end):
            row = {"kind": "unit", "topic": self._key[0], "queueId": self._key[1], "queueOffset": offset}
            row |= {"physicalOffset": unit[0], "storeSize": unit[1], "tagsCode": unit[2]}
            yield row | {"filler": is_filler(unit), "extAddress": is_address(unit[2])}

    def message_rows(
        self, begin: int | None = None, limit: int | None = None, *, max_body: int | None = MAX_BODY
    ) -> Iterator[Row]:
        """The messages from an offset on; a unit that leads to none becomes a row that says why."""
        first = self.begin if begin is None else max(begin, self._units.begin(self._key))
        end = self.end if limit is None else min(self.end, first + limit)
        for offset, (position, size, _) in self._units.walk(self._key, first, end):
            file = self._layout.log.find(position)
            data = self._layout.log.read(position, size) if file is not None and size > 0 else b""
            record = self._check(data, 0, position)
            if file is None or record is None or record.size != size:
                yield self._missing(offset, position, size, data)
                continue
            name, at = file.path.rpartition("/")[2], position - file.start
            yield message_row(data, name, at, pulled=record.queue_offset == offset, max_body=max_body)

    def _missing(self, offset: int, position: int, size: int, data: bytes) -> Row:
        file = self._layout.log.find(position)
        if is_filler((position, size, 0)) or position < self._layout.log.start:
            reason = "the message is gone, the log begins behind it"
        elif file is None or not any(data):
            reason = "nothing is written there"
        else:
            reason = reason_of(data, position, file.end - position)
        row = {"kind": "missing", "topic": self._key[0], "queueId": self._key[1], "queueOffset": offset}
        return row | {"physicalOffset": position, "storeSize": size, "reason": reason}


def _not_found(layout: StoreLayout, topic: str, queue_id: int) -> str:
    numbers = [str(key[1]) for key in layout.queues if key[0] == topic]
    if numbers:
        return f"topic {topic!r:.200} has no queue {queue_id}; it has {', '.join(numbers[:20])}"
    known = sorted({key[0] for key in layout.queues})
    listed = ", ".join(repr(name)[:80] for name in known[:10]) + (", ..." if len(known) > 10 else "")
    others = f"there are some of {listed}" if listed else "there are none at all"
    return f"there are no queues of topic {topic!r:.200}; {others}"
