"""A task of `dev` that runs beside another one, and is heard once that has ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.ending import end_session, raised
from tools.trouble import say


@contextlib.contextmanager
def beside(root: Path, *task: str) -> Iterator[Callable[[], int]]:
    """Run a task in a session of its own; gives what waits for its end, shows what it said, and returns its status.

    It is ended with the block, and all that it has started with it. Raising out of the block ends it at once; so do
    Ctrl-C and SIGTERM.

    Args:
        root: The tree.
        task: The name of the task and its arguments.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output, raised(signal.SIGTERM):
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
            end_session(process)
