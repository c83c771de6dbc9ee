"""Has the garbage collector of a Python worker ignore permanent objects: those of modules, and Spark's own.

Rows are created and freed by the hundred thousand, and the collector visits all remaining objects again and again. The
daemon of PySpark 4 also runs it after each task. That took a sixth of a worker's time per row.
"""

from __future__ import annotations

import gc

__all__ = ["spare_collector"]

_OF_THE_INTERPRETER = 1000
"""The number of objects that the interpreter itself may have frozen: 375 in Python 3.12, none in other versions."""


def spare_collector() -> None:
    """Freeze all objects that exist now, unless other code has done that before, in this process or its parent.

    Garbage is collected first. Frozen objects are still freed by reference counting. So only reference cycles that
    exist now and become garbage later stay in memory.
    """
    if gc.isenabled() and gc.get_freeze_count() < _OF_THE_INTERPRETER:
        gc.collect()
        gc.freeze()
