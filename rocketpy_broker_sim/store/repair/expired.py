"""Queues whose messages have all expired: the log does not tell where their offsets go on, so a repair leaves them.

Recovery keeps them for the same reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.inspect.findings import DAMAGE, file_findings
from rocketpy_broker_sim.store.inspect.units import QueueUnits, is_filler

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import QueueKey, StoreLayout

__all__ = ["expired_queues"]


def expired_queues(layout: StoreLayout) -> frozenset[QueueKey]:
    """The queues that only tell where they go on, and whose files are whole."""
    units, start = QueueUnits(layout), layout.log.start
    return frozenset(key for key in layout.queues if _is_expired(layout, units, key, start))


def _is_expired(layout: StoreLayout, units: QueueUnits, key: QueueKey, log_start: int) -> bool:
    end = units.end(key)
    if not end or units.live_begin(key, log_start) != end:
        return False
    last = units.get(key, end - 1) if end > units.begin(key) else None
    if last is not None and not is_filler(last) and last[0] + last[1] > log_start:
        return False
    found = file_findings(layout.queues[key], "queue", unclean=layout.unclean)
    return all(finding.kind != DAMAGE for finding in found)
