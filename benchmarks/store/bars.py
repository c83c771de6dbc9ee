"""The bars of the store: ratios to other figures of the same run, and the few that hold on any machine."""

from __future__ import annotations

from benchmarks.bars import ALONE, APACHE, FILTER_BARS, OURS, Bar, Figure


def _alone(title: str, row: str, limit: float, over: str) -> Bar:
    return Bar("store", title, Figure(row, ALONE), limit, over=Figure(over, ALONE))


def _broker(title: str, row: str, limit: float, over: str) -> Bar:
    return Bar("store", title, Figure(row, OURS), limit, over=Figure(over, OURS))


def _most(title: str, row: str, limit: float) -> Bar:
    return Bar("store", title, Figure(row, OURS), limit, at_least=False)


STORE_BARS = (
    _alone("append, 1 KiB, to bare pwrites of a record", "store-append", 0.1, "store-pwrite"),
    _alone("batches of 100, to bare pwrites of a record", "store-append-100", 0.3, "store-pwrite"),
    Bar(
        "store",
        "dispatch keeps up: most that waits after a turn",
        Figure("store-behind", ALONE),
        65_536.0,
        at_least=False,
    ),
    _broker("group commit, 64 senders of one connection to one", "store-sync-64", 10.0, "store-sync-1"),
    Bar(
        "store",
        "3,000 messages/s: p99.9, to Apache's (or 10 ms)",
        Figure("store-steady-p999", OURS),
        1.5,
        at_least=False,
        over=Figure("store-steady-p999", APACHE),
        enough=10.0,
    ),
    _most("3,000 messages/s: longest", "store-steady-max", 50.0),
    _most("10 GiB: broker process to serving", "store-open", 3.0),
    _most("10 GiB: memory of its own", "store-rss-anon", 150.0),
    _most("killed with 64 MiB of log: process to serving", "store-restart-64m", 3.0),
    _broker("64 topics, to one", "store-topics-64", 0.8, "store-topics-1"),
    _broker("1,000 topics, to one", "store-topics-1000", 0.8, "store-topics-1"),
    _broker("10,000 topics, to one", "store-topics-10000", 0.8, "store-topics-1"),
    *FILTER_BARS,
    _broker("sends beside the reader of a cold backlog, to alone", "store-send-backlog", 0.8, "store-send-alone"),
)
"""80,000/s and 250,000/s are wished for; a bare pwrite of a record reached 860,000/s where these bars were drawn."""
