"""How a process that was started here ends when what waits for it is left early: by an error, Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from types import FrameType

PATIENCE = 10.0
"""Seconds that what is ended early has to clean up."""


def end(process: subprocess.Popen[bytes], kill: Callable[[int, int], None] = os.kill) -> None:
    """End a process unless it has ended by itself: with SIGTERM, and with SIGKILL if that does not help.

    Args:
        process: The process.
        kill: Sends a signal to its id; `os.killpg` where the process leads a group that ends with it.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:  # nobody else can have its number yet
            kill(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)


@contextlib.contextmanager
def raised(number: int) -> Iterator[None]:
    """Have a signal leave the block as a SystemExit does, with the status that shells give it.

    A second one does not disturb the cleaning that the first one has begun.
    """

    def leave(_number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(number, leave)
    try:
        yield
    finally:
        signal.signal(number, before)
