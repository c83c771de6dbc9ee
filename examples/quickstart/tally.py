"""What arrived: every record counted once by its number, and a small table by tag."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    import rocketpy

NUMBER = "number"
"""The property that carries a record's number, its place in the input."""


class Tally:
    """Counts deliveries; consumers of several threads share it."""

    def __init__(self, total: int, value_column: str | None) -> None:
        self._lock = threading.Lock()
        self._seen = bytearray(total)
        self._value_column = value_column
        self._groups: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
        self.received = 0
        self.duplicates = 0
        self.strangers = 0

    def take(self, messages: list[rocketpy.MessageExt]) -> None:
        """Count one batch; the listener of both consumers."""
        rows = [(int(message.properties[NUMBER]), message.tags, msgpack.unpackb(message.body)) for message in messages]
        with self._lock:
            for number, tag, record in rows:
                self._count(number, tag, record)

    def _count(self, number: int, tag: str | None, record: dict[str, Any]) -> None:
        if not 0 <= number < len(self._seen):
            self.strangers += 1
        elif self._seen[number]:
            self.duplicates += 1
        else:
            self._seen[number] = 1
            self.received += 1
            group = self._groups[tag or ""]
            group[0] += 1
            value = record.get(self._value_column) if self._value_column else None
            if value not in {None, "", "NA"}:
                group[1] += 1
                group[2] += float(value)

    def is_exact(self, sent: int) -> bool:
        """Whether each of `sent` records arrived, and none twice."""
        return self.received == sent and not self.duplicates and not self.strangers

    def rows(self) -> list[tuple[str, str, str]]:
        """Tag, count, mean value: most frequent first."""
        ordered = sorted(self._groups.items(), key=lambda item: -item[1][0])
        return [
            (tag or "(none)", f"{int(count):,}", f"{total / known:.1f}" if known else "-")
            for tag, (count, known, total) in ordered
        ]
