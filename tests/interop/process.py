"""A child process whose output is read line by line, waited for, and kept for the failure message.

One thread per process reads standard output; standard error and the log file stay on disk. Waiting is
for a line or for the end, with a deadline, never for a guessed time.
"""

from __future__ import annotations

import subprocess
import threading
import time
import weakref
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar

from tests.interop import jvm
from tests.interop.failure import InteropError, section, tail
from tests.interop.settings import LOG_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.interop.forks import Fork

STOP_SECONDS = 20.0

T = TypeVar("T")
Start: TypeAlias = "Callable[[Sequence[str], Path, Mapping[str, str], IO[bytes]], subprocess.Popen[str] | Fork]"
"""Starts a command in a directory with an environment and a file for its standard error."""

_alive: weakref.WeakSet[JavaProcess] = weakref.WeakSet()


def started(
    command: Sequence[str], home: Path, environment: Mapping[str, str], errors: IO[bytes]
) -> subprocess.Popen[str]:
    """Start a program in a directory."""
    return subprocess.Popen(
        command,
        cwd=home,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        encoding="utf-8",
        errors="replace",
        bufsize=1,
    )


class JavaProcess:
    """One JVM, or one of our servers: its lines so far, its end, its logs."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        home: Path,
        *,
        environment: Mapping[str, str] | None = None,
        start: Start = started,
    ) -> None:
        self.name = name
        self.home = home
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._stderr = home / "stderr.txt"
        with self._stderr.open("wb") as errors:
            self._popen = start(command, home, {**jvm.environment(home), **(environment or {})}, errors)
        self._reader = threading.Thread(target=self._read, name=f"{name}-stdout", daemon=True)
        self._reader.start()
        _alive.add(self)

    @property
    def pid(self) -> int:
        """The process id, for measuring CPU and memory."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._popen.poll() is None

    def wait_line(self, wanted: Callable[[str], bool], what: str, timeout: float) -> str:
        """The first line, past or coming, that is wanted.

        Raises:
            InteropError: The process ended or the time passed without such a line.
        """
        seen = 0

        def found() -> str | None:
            nonlocal seen
            while seen < len(self.lines):
                seen += 1
                if wanted(self.lines[seen - 1]):
                    return self.lines[seen - 1]
            return None

        return self.wait_until(found, what, timeout)

    def wait_until(self, ready: Callable[[], T | None], what: str, timeout: float) -> T:
        """Ask again after every line until the answer is not None."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while (answer := ready()) is None:
                if self._ended:
                    raise InteropError(f"{self.name} ended before {what}\n{self.report()}")
                if not self._changed.wait(deadline - time.monotonic()):
                    raise InteropError(f"{self.name}: no {what} within {timeout:g} s\n{self.report()}")
        return answer

    def write_line(self, line: str) -> None:
        """Give the process one line on standard input."""
        try:
            self._stdin.write(line + "\n")
            self._stdin.flush()
        except OSError as exc:
            raise InteropError(f"{self.name} takes no more input: {exc}\n{self.report()}") from exc

    def close_input(self) -> None:
        """End of standard input: our drivers take it as the word to finish."""
        try:
            self._stdin.close()
        except BrokenPipeError:
            return  # it has finished without being told

    def wait_end(self, timeout: float, *, expect: int | None = 0) -> int:
        """Wait for the end and check the exit status."""
        try:
            status = self._popen.wait(timeout)
        except subprocess.TimeoutExpired as exc:
            raise InteropError(f"{self.name} did not end within {timeout:g} s\n{self.report()}") from exc
        self._reader.join(STOP_SECONDS)
        if expect is not None and status != expect:
            raise InteropError(f"{self.name} ended with status {status}\n{self.report()}")
        return status

    def terminate(self) -> None:
        """SIGTERM, and nothing more."""
        self._popen.terminate()

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM, then SIGKILL for one that does not listen; the exit status."""
        if self.running:
            self._popen.terminate()
            try:
                self._popen.wait(timeout)
            except subprocess.TimeoutExpired:
                self._popen.kill()
        return self._clean_up()

    def kill(self) -> int:
        """SIGKILL at once, for tests of a crash and for stores that nobody wants."""
        self._popen.kill()
        return self._clean_up()

    def report(self, lines: int = 40) -> str:
        """What the process said lately: standard output, standard error, log file."""
        status = "running" if self.running else f"exit status {self._popen.returncode}"
        return (
            section(f"{self.name} (pid {self.pid}, {status}), output", "\n".join(self.lines[-lines:]))
            + section(f"{self.name}, errors", tail(self._stderr, lines))
            + section(f"{self.name}, {LOG_FILE}", tail(self.home / "logs" / LOG_FILE, lines))
        )

    @property
    def _stdin(self) -> IO[str]:
        assert self._popen.stdin is not None
        return self._popen.stdin

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _clean_up(self) -> int:
        status = self._popen.wait()
        self.close_input()
        self._reader.join(STOP_SECONDS)
        assert self._popen.stdout is not None
        self._popen.stdout.close()
        _alive.discard(self)
        return status


def running_reports() -> list[tuple[str, str]]:
    """Name and latest output of every process that is up, for the report of a failed test."""
    return [(process.name, process.report()) for process in sorted(_alive, key=lambda each: each.name)]
