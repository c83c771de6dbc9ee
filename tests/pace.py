"""How fast this machine is just now, beside the one in whose seconds bounds on processor time are told.

A virtual machine whose host is busy may take twice as long for everything, and no clock of its own says so. Where
something seems too slow, a small piece of work that stays the same is timed as well: bounds are ratios of the two.
"""

from __future__ import annotations

import gc
import json
import re
import time

__all__ = ["MOST", "slowness", "slowness_of_collections"]

ORDINARY = 0.00125
"""Seconds of processor time of the work below on an ordinary server core, with CPython 3.11."""
ORDINARY_COLLECTION = 0.0067
"""The same of a full collection over a number of small objects, which waits for memory more than it computes."""
MOST = 3.0
"""A machine that is slower than that cannot judge."""
_TRIES = 5
_OBJECTS = 100_000
_TEXT = json.dumps({f"name{n}": [n, str(n), {"flag": n % 2 == 0}] for n in range(300)})
_WORD = re.compile(r"[a-z]+\d+")


def slowness() -> float:
    """How many times the ordinary time the same work takes now, at its best: from 1 to `MOST`."""
    return min(MOST, max(1.0, min(_seconds() for _ in range(_TRIES)) / ORDINARY))


def slowness_of_collections() -> float:
    """The same for full collections of garbage, which a busy memory slows down more than it does other work."""
    gc.collect()
    gc.freeze()  # what this process holds otherwise is no part of the work
    try:
        kept = [{"number": n, "list": [n]} for n in range(_OBJECTS)]
        best = min(_seconds_of_collection() for _ in range(_TRIES))
        kept.clear()
    finally:
        gc.unfreeze()
    return min(MOST, max(1.0, best / ORDINARY_COLLECTION))


def _seconds_of_collection() -> float:
    began = time.thread_time()
    gc.collect()
    return time.thread_time() - began


def _seconds() -> float:
    began = time.thread_time()
    table: dict[str, int] = {}
    for _ in range(4):
        for match in _WORD.finditer(_TEXT):
            word = match.group()
            table[word] = table.get(word, 0) + len(word)
        for name, (number, text, _flags) in json.loads(_TEXT).items():
            table[name] = number + int(text)
    sorted(table.items())
    return time.thread_time() - began
