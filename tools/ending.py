"""How a process that was started here ends when what waits for it is left early: by an error, Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from types import FrameType

PATIENCE = 10.0
"""Seconds that what is ended early has to clean up."""


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process unless it has ended by itself: with SIGTERM, and with SIGKILL if that does not help."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)


def end_session(process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> None:
    """End a process that leads a session: by a signal that lets it clean up, and then all that is left of it."""
    if process.poll() is None:
        process.send_signal(by)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def raised(*numbers: int) -> Iterator[None]:
    """Have the first of these signals leave the block as a SystemExit does, with the status that shells give it.

    Later ones do not disturb the cleaning that the first one has begun.
    """
    before = {number: signal.getsignal(number) for number in numbers}

    def leave(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    try:
        for number in numbers:
            signal.signal(number, leave)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
