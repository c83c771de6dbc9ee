"""`rocketpy` as a real process: in a pipe, or on a terminal of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocketpy_broker_sim import BlockingLocalCluster

__all__ = ["Terminal", "command", "environment", "on_terminal", "run"]

ROOT = Path(__file__).resolve().parents[2]


def environment(cluster: BlockingLocalCluster | None = None, **more: str) -> dict[str, str]:
    """What a process finds in its environment."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("NAMESRV_", "ROCKETPY_", "_ROCK"))
    }
    address = {} if cluster is None else {"NAMESRV_ADDR": cluster.name_server_addresses}
    return kept | {"PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "TERM": "xterm", "COLUMNS": "200"} | address | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rocketpy.cli", *arguments]


def run(cluster: BlockingLocalCluster | None, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments), env=environment(cluster, **more), capture_output=True, text=True, timeout=60, check=False
    )


class Terminal:
    """A process on a terminal of its own.

    Attributes:
        process: The process.
        seen: Everything that the terminal was sent.
    """

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.seen = ""

    def until(self, text: str, times: int = 1) -> None:
        """Read until a text has come so many times."""
        while self.seen.count(text) < times:
            part = self._read()
            assert part, f"{text!r} never came: {self.seen}"
            self.seen += part

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def end(self) -> int:
        """Read the rest; returns the status."""
        while part := self._read():
            self.seen += part
        return self.process.wait(timeout=60)

    def _read(self) -> str:
        try:
            return os.read(self._descriptor, 4096).decode(errors="replace")
        except OSError:  # of Linux, where the other side was closed
            return ""


@contextmanager
def on_terminal(cluster: BlockingLocalCluster, *arguments: str) -> Iterator[Terminal]:
    """Run a command on a terminal."""
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(*arguments),
        env=environment(cluster),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            if process.poll() is None:
                process.kill()
            os.close(ours)
