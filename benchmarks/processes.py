"""Child processes, and what the kernel says of them: CPU and memory from /proc, None where there is none."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from benchmarks.trouble import BenchmarkError

ROOT = Path(__file__).resolve().parent.parent
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int | None) -> float | None:
    """CPU that a process has used, user and system, all its threads."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_megabytes(pid: int | None, kind: str = "VmRSS") -> float | None:
    """Memory of a process that is in RAM now; of the kind "RssAnon" what is its own and of no file."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{kind}:")), None)


def environment(tree: Path | None = None) -> dict[str, str]:
    """That of this process, but compiled modules are kept, as they are wherever this project is used.

    Args:
        tree: Its packages go before the installed ones; those of None are the installed ones.
    """
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if tree is not None:
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tree), found.get("PYTHONPATH"))))
    return found


class Child:
    """A process whose standard output is read line by line: this Python in this tree, unless others are named."""

    def __init__(
        self,
        *arguments: str,
        program: str = sys.executable,
        env: Mapping[str, str] | None = None,
        tree: Path | None = None,
    ) -> None:
        self.started = time.monotonic()
        self._arguments = arguments
        self._popen = subprocess.Popen(
            [program, *arguments],
            cwd=tree or ROOT,
            env=environment(tree) if env is None else env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors: list[str] = []
        for target, pipe in ((self._read_output, self._popen.stdout), (self._read_errors, self._popen.stderr)):
            assert pipe is not None, "asked for above"
            threading.Thread(target=target, args=(pipe,), daemon=True).start()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self.started

    def line(self, timeout: float = 60.0) -> str:
        """The next line it prints.

        Raises:
            BenchmarkError: it ended, or says nothing in time.
        """
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise BenchmarkError(f"{self._name()} said nothing for {timeout:g} s") from None
        if line is None:
            status = self._popen.wait(10)
            raise BenchmarkError(f"{self._name()} ended with status {status}\n{''.join(self._errors)}")
        return line

    def tell(self, line: str) -> None:
        """Give it one line.

        Raises:
            BenchmarkError: it takes no more.
        """
        pipe = self._popen.stdin
        assert pipe is not None, "asked for above"
        try:
            pipe.write(line + "\n")
            pipe.flush()
        except (OSError, ValueError) as error:
            raise BenchmarkError(f"{self._name()} takes no more input\n{''.join(self._errors)}") from error

    def stop(self, timeout: float = 30.0) -> float:
        """SIGTERM; the seconds until it was gone."""
        began = time.monotonic()
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
            try:
                self._popen.wait(timeout)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                raise BenchmarkError(f"{self._name()} did not end within {timeout:g} s of SIGTERM") from None
        self._close_input()
        return time.monotonic() - began

    def end(self, timeout: float = 30.0) -> None:
        """Give it no more input, and wait until it has ended of itself; what does not is killed."""
        self._close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """End it at once, and wait for that."""
        self._popen.kill()
        self._popen.wait(10)
        self._close_input()

    def _close_input(self) -> None:
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):  # what was not read yet has no reader now
                self._popen.stdin.close()

    def _name(self) -> str:
        return " ".join(self._arguments)[:200]

    def _read_output(self, pipe: IO[str]) -> None:
        with pipe as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_errors(self, pipe: IO[str]) -> None:
        with pipe as lines:
            self._errors.extend(lines)
