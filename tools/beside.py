"""A command that runs beside others, a task of `dev` for example, and is heard once those have ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.ending import end_session, raised
from tools.trouble import say


@contextlib.contextmanager
def beside(root: Path, *task: str) -> Iterator[Callable[[], int]]:
    """Run a task of `dev` so; see `command_beside`.

    Args:
        root: The tree.
        task: The name of the task and its arguments.
    """
    command = [sys.executable, str(root / "dev"), *task]
    with command_beside(root, command, title=f"beside the others: ./dev {' '.join(task)}") as end:
        yield end


@contextlib.contextmanager
def command_beside(
    root: Path, command: Sequence[str], *, title: str, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[[], int]]:
    """Run a command in a session of its own; gives what waits for its end, shows what it said, and returns its status.

    It is ended with the block, and all that it has started with it. Raising out of the block ends it at once; so do
    Ctrl-C and SIGTERM.

    Args:
        root: The tree, where it runs.
        command: It and its arguments.
        title: What stands above what it said.
        environment: Its variables, where it has others than this process.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output, raised(signal.SIGTERM):
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )

        def end() -> int:
            status = process.wait()
            output.seek(0)
            say(f"== {title}")
            say(output.read())
            return status

        try:
            yield end
        finally:
            end_session(process)
