"""A task of `dev` that runs beside another one, and is heard once that has ended."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.trouble import say


@contextlib.contextmanager
def beside(root: Path, *task: str) -> Iterator[Callable[[], int]]:
    """Run a task in a process of its own; gives what waits for its end, shows what it said, and returns its status.

    It is ended with the block. Raising out of the block, Ctrl-C above all, ends it at once.

    Args:
        root: The tree.
        task: The name of the task and its arguments.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        command = [sys.executable, str(root / "dev"), *task]
        process = subprocess.Popen(command, cwd=root, stdout=output, stderr=subprocess.STDOUT)

        def end() -> int:
            status = process.wait()
            output.seek(0)
            say(f"== beside the others: ./dev {' '.join(task)}")
            say(output.read())
            return status

        try:
            yield end
        finally:
            process.terminate()
            process.wait()
