"""Ctrl-C at a moment that bears it.

PySpark forgets the JVM that it is starting when it is interrupted, and that JVM then runs until somebody kills it. So
an interrupt has to wait until there is a session that can be stopped. Not here: what is interrupted then.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold interrupts back for the time of the block. In the main thread only, where they arrive.

    Raises:
        KeyboardInterrupt: at the end of the block, when one came meanwhile.
    """
    came = False

    def remember(*_: object) -> None:
        nonlocal came
        if not came:
            print("stopping as soon as Spark has started", file=sys.stderr, flush=True)
        came = True

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
