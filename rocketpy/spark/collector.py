"""Spares the garbage collector of a Python worker what is there for good: modules, and what Spark brought along.

Rows come and go by the hundred thousand, and every so many of them the collector walks over all that has stayed; the
daemon of PySpark 4 does so after each task as well. That took a sixth of what a worker spends on a row.
"""

from __future__ import annotations

import gc

__all__ = ["spare_collector"]

_OF_THE_INTERPRETER = 1000
"""So many objects may be frozen from the start: 375 are in Python 3.12, none in others."""


def spare_collector() -> None:
    """Have the collector leave alone what is alive now, unless somebody did that before, in this process or above it.

    Garbage is collected first. What is left alone is freed by its reference counts as always, so only a cycle that is
    alive now and given up later stays.
    """
    if gc.isenabled() and gc.get_freeze_count() < _OF_THE_INTERPRETER:
        gc.collect()
        gc.freeze()
