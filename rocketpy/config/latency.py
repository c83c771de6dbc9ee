"""For how long a producer avoids a broker that was slow or failed: the tables of 4.x and 5.x. Pure.

Only the tables; `rocketpy.client.fault` uses them. Plays the part of latencyMax and notAvailableDuration of
MQFaultStrategy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import ClassVar

import attrs

from rocketpy.config.checks import number, whole
from rocketpy.errors import ConfigError
from rocketpy.reprs import Short

__all__ = ["LatencyTable", "latency_table_of"]

_MOST_MS = 24 * 3600 * 1000


def _steps(value: Iterable[int]) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ConfigError(f"the steps of a latency table must be a list of milliseconds, not {value!r:.100}")
    steps = tuple(value)
    for step in steps:
        number("a step of a latency table", step, (int,))
    return steps


@attrs.frozen(kw_only=True, repr=False)
class LatencyTable(Short):
    """For how long a broker is avoided after a send of a given latency, in milliseconds, as in Java."""

    latency_max_ms: tuple[int, ...] = attrs.field(converter=_steps)
    """The least latency of each step, in rising order; latencyMax in Java."""
    not_available_ms: tuple[int, ...] = attrs.field(converter=_steps)
    """For how long a broker is avoided after a latency of each step; notAvailableDuration in Java."""
    isolation_ms: int = attrs.field(default=30_000, validator=whole(0))
    """The latency that counts for a send that failed."""

    RELEASE_4: ClassVar[LatencyTable]
    """The table of 4.x, the default."""
    RELEASE_5: ClassVar[LatencyTable]
    """The table of 5.x, with much shorter times."""

    def __attrs_post_init__(self) -> None:
        """Check that both columns fit together."""
        steps = self.latency_max_ms
        if len(steps) != len(self.not_available_ms) or not steps:
            raise ConfigError("latency_max_ms and not_available_ms must have the same number of steps, at least one")
        if list(steps) != sorted(set(steps)) or steps[0] < 0 or min(self.not_available_ms) < 0:
            raise ConfigError(f"latency_max_ms must rise from step to step, and no number may be negative: {self}")
        if max(*steps, *self.not_available_ms) > _MOST_MS:
            raise ConfigError(f"no number of a latency table may be more than a day, {_MOST_MS} ms: {self}")

    def not_available_for(self, latency_ms: float) -> int:
        """Milliseconds for which a broker is avoided after a send of that latency."""
        step = bisect_right(self.latency_max_ms, latency_ms) - 1
        return self.not_available_ms[step] if step >= 0 else 0


LatencyTable.RELEASE_4 = LatencyTable(
    latency_max_ms=(50, 100, 550, 1000, 2000, 3000, 15_000),
    not_available_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    isolation_ms=30_000,
)
LatencyTable.RELEASE_5 = LatencyTable(
    latency_max_ms=(50, 100, 550, 1800, 3000, 5000, 15_000),
    not_available_ms=(0, 0, 2000, 5000, 6000, 10_000, 30_000),
    isolation_ms=10_000,
)
_PROFILES = {"4.x": LatencyTable.RELEASE_4, "5.x": LatencyTable.RELEASE_5}


def latency_table_of(value: LatencyTable | str) -> LatencyTable:
    table = _PROFILES.get(value) if isinstance(value, str) else value
    if not isinstance(table, LatencyTable):
        raise ConfigError(f"latency_table must be a LatencyTable, '4.x' or '5.x', not {value!r:.100}")
    return table
