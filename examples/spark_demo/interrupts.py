"""Delays Ctrl-C until it does no harm.

If PySpark is interrupted while it starts a JVM, it forgets this JVM, which then runs until it is killed. So an
interrupt waits until there is a session that can be stopped. A later interrupt ends a call, and its traceback is not
shown.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Hold interrupts back during the block. Only in the main thread, where they arrive.

    Raises:
        KeyboardInterrupt: at the end of the block, if one came meanwhile.
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
    """Hide the traceback that py4j logs, through the root logger, for a call that Ctrl-C ends."""
    logging.getLogger().addFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))
