"""Ctrl-C and SIGTERM end a run in order: what it has started ends, and its copies of the tree go."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 10.0
"""Seconds that a process has to end what it has started."""


@contextlib.contextmanager
def left_by_signals() -> Iterator[None]:
    """Have the first of these signals leave the block as a SystemExit does; later ones do not disturb the cleaning."""
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    try:
        for number in SIGNALS:
            signal.signal(number, leave)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end(process: subprocess.Popen[bytes], by: signal.Signals) -> None:
    """End a process that leads a session: by a signal that lets it clean up, and then all that is left of it."""
    if process.poll() is None:
        process.send_signal(by)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
