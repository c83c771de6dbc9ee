"""What a server that has a process for itself asks of the interpreter, so that its loop is not held up.

Not for servers within a program of somebody else's: these settings are of the whole process. docs/design.md has the
figures. Has no counterpart in Java, where the options of the virtual machine do this.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["long_running"]

SWITCH_SECONDS = 0.0005
"""How long a thread that flushes may compute before the loop gets its turn; Python's own 5 ms are twenty sends long."""


@contextmanager
def long_running() -> Iterator[None]:
    """Settings for the time that a server serves.

    What it holds when it begins, tables and queues above all, is not looked through by the garbage collector any more.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
