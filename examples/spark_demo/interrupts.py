"""Ctrl-C at a moment that bears it.

PySpark forgets the JVM that it is starting when it is interrupted, and that JVM then runs until somebody kills it. So
an interrupt has to wait until there is a session that can be stopped. Later it ends a call, and nobody needs to read
where. Not here: what is interrupted then.
"""

from __future__ import annotations

import contextlib
import logging
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


def quiet_when_interrupted() -> None:
    """Keep the traceback off the screen that py4j logs, by the root logger, for a call that Ctrl-C ends."""
    logging.getLogger().addFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))
