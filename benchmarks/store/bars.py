"""The bars of the store: ratios to other figures of the same run, and the few that hold on any machine."""

from __future__ import annotations

from benchmarks.bars import ALONE, OURS, Bar, Figure


def _alone(title: str, row: str, limit: float, over: str) -> Bar:
    return Bar("store", title, Figure(row, ALONE), limit, over=Figure(over, ALONE))


def _broker(title: str, row: str, limit: float, over: str) -> Bar:
    return Bar("store", title, Figure(row, OURS), limit, over=Figure(over, OURS))


STORE_BARS = (
    _alone("append, 1 KiB, to bare pwrites of a record", "store-append", 0.1, "store-pwrite"),
    _alone("batches of 100, to bare pwrites of a record", "store-append-100", 0.3, "store-pwrite"),
    _alone("dispatch, to putting and writing", "store-reput", 1.0, "store-put"),
    _broker("group commit, 64 senders of one connection to one", "store-sync-64", 10.0, "store-sync-1"),
)
"""80,000/s and 250,000/s are wished for; a bare pwrite of a record reached 860,000/s where these bars were drawn."""
