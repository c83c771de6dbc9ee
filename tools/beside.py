"""A task of `dev` that runs beside another one, and is heard once that has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from tools.trouble import say

PATIENCE = 10.0
"""Seconds that what is ended early has to clean up."""


@contextlib.contextmanager
def beside(root: Path, *task: str) -> Iterator[Callable[[], int]]:
    """Run a task in a session of its own; gives what waits for its end, shows what it said, and returns its status.

    It is ended with the block, and all that it has started with it. Raising out of the block ends it at once; so do
    Ctrl-C and SIGTERM.

    Args:
        root: The tree.
        task: The name of the task and its arguments.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output, _raised(signal.SIGTERM):
        command = [sys.executable, str(root / "dev"), *task]
        process = subprocess.Popen(command, cwd=root, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

        def end() -> int:
            status = process.wait()
            output.seek(0)
            say(f"== beside the others: ./dev {' '.join(task)}")
            say(output.read())
            return status

        try:
            yield end
        finally:
            _end_all(process)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End it and what it has started, unless it has ended by itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:  # nobody else can have its number yet
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)


@contextlib.contextmanager
def _raised(number: int) -> Iterator[None]:
    """Have a signal leave the block as a SystemExit does, with the status that shells give it."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(number, leave)
    try:
        yield
    finally:
        signal.signal(number, before)
