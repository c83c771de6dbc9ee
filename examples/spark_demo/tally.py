"""The same totals as Spark's, computed from the messages, with each row counted once.

The sink sends at least once. With provenance, each row counts exactly once, because duplicates are dropped.
"""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rocketpy.spark import provenance_of

if TYPE_CHECKING:
    import rocketpy
    from examples.spark_demo.source import Totals


class Seen:
    """Knows which rows have arrived. A service would keep this in its database, together with its own results."""

    def __init__(self) -> None:
        self._origins: set[object] = set()

    def again(self, message: rocketpy.MessageExt) -> bool:
        """Whether this row was seen before. From now on it counts as seen."""
        origin = provenance_of(message)
        if origin is None or origin not in self._origins:  # None: no sink with provenance has sent it
            self._origins.add(origin)
            return False
        return True


class Tally:
    """Sums up messages. Consumers in several threads share it."""

    def __init__(self, group: str, values: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._group = group
        self._values = values
        self._seen = Seen()
        self._totals: dict[object, list[Any]] = {}
        self.received = 0
        self.duplicates = 0

    def take(self, messages: list[rocketpy.MessageExt]) -> None:
        """Count one batch; the listener of both consumers."""
        rows = [json.loads(message.body, parse_float=Decimal) for message in messages]
        with self._lock:
            for message, row in zip(messages, rows, strict=True):
                if self._seen.again(message):
                    self.duplicates += 1
                else:
                    self._add(row)

    def _add(self, row: dict[str, Any]) -> None:
        self.received += 1
        total = self._totals.setdefault(row[self._group], [0, *(None for _ in self._values)])
        total[0] += 1
        for place, name in enumerate(self._values, 1):
            value = row.get(name)
            if value is not None:  # a sum in SQL skips nulls, and is null if there are only nulls
                total[place] = (total[place] or 0) + Decimal(value)

    def totals(self) -> Totals:
        """By group, as Spark gives them."""
        with self._lock:
            return {group: tuple(total) for group, total in self._totals.items()}
