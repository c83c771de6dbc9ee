"""Producers and consumers of Apache's in one JVM for each release, since every start of one takes a second.

`shared(apache)` has one started when it is first wanted, and another one for each of the `OPTIONS` that tests share;
within it `begun` gives jobs of it to `drivers.running`. What needs other JVM options, or is to be killed, has a JVM to
itself as ever. A job looks to a driver as its process.
"""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from tests.interop import jvm, settings
from tests.interop.failure import InteropError, section
from tests.interop.process import JavaProcess
from tests.interop.servers import temporary_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.interop.apache import Apache

MAINS = ("Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer")
HEAP = ("-Xmx512m",)
OPTIONS = ((), jvm.ROCKETMQ_HEADERS)
"""Those of JVMs that are shared."""

T = TypeVar("T")

_open: dict[str, dict[tuple[str, ...], Jobs]] = {}


class Jobs:
    """One JVM, started for its first job, and again if it has broken down."""

    def __init__(self, apache: Apache, stack: ExitStack, options: Sequence[str]) -> None:
        self.offsets = stack.enter_context(temporary_home("offsets"))
        self._apache = apache
        self._stack = stack
        self._options = (*HEAP, f"-Drocketmq.client.localOffsetStoreDir={self.offsets}", *options)
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._read = 0
        self._process: JavaProcess | None = None

    def begin(self, main: str, arguments: Sequence[str]) -> Job:
        """Have a driver work."""
        with self._lock:
            process = self._running()
            number = next(self._numbers)
            job = self._jobs[str(number)] = Job(f"Java {main}, job {number}", number, process, self.take_in)
            named = [*arguments] if "--instance" in arguments else ["--instance", f"job-{number}", *arguments]
            process.write_line(json.dumps({"job": number, "main": main, "arguments": named}))
            return job

    def take_in(self) -> None:
        """Give the jobs what the JVM has said of them."""
        with self._lock:
            lines = self._process.lines if self._process is not None else []
            while self._read < len(lines):
                number, _, text = lines[self._read].partition(" ")
                self._read += 1
                if number in self._jobs:
                    self._jobs[number].take(text)

    def _running(self) -> JavaProcess:
        if self._process is None or not self._process.running:
            home = self._stack.enter_context(temporary_home("jobs"))
            settings.prepare_home(home)
            command = jvm.driver_command(home, self._apache.driver_class_path(), "Jobs", options=self._options)
            self._process, self._read = JavaProcess(f"Java jobs ({self._apache.version})", command, home), 0
            self._stack.callback(self._process.kill)
        return self._process


class Job:
    """One driver in the JVM: its lines, its end, what it failed with."""

    def __init__(self, name: str, number: int, process: JavaProcess, take_in: Callable[[], None]) -> None:
        self.name = name
        self._number = number
        self._process = process
        self._take_in = take_in
        self._lines: list[str] = []
        self._ended = False
        self._error: str | None = None

    @property
    def lines(self) -> list[str]:
        """What it has printed so far."""
        self._take_in()
        return self._lines

    def take(self, line: str) -> None:
        """Take in a line of it."""
        word, _, text = line.partition(" ")
        if word in {"ended", "broken"}:
            self._ended = True
            self._error = json.loads(text) or None
        else:
            self._lines.append(line)

    def wait_until(self, ready: Callable[[], T | None], what: str, timeout: float) -> T:
        """Ask again after every line of the JVM until the answer is not None."""

        def answer() -> tuple[T | None] | None:
            self._take_in()
            found = ready()
            return (found,) if found is not None or self._ended else None

        (found,) = self._process.wait_until(answer, f"{what} of {self.name}", timeout)
        if found is None:
            raise InteropError(f"{self.name} ended before {what}\n{self.report()}")
        return found

    def close_input(self) -> None:
        """Tell it to finish."""
        self._tell()

    def wait_end(self, timeout: float) -> None:
        """Wait for a clean end."""

        def ended() -> bool | None:
            self._take_in()
            return self._ended or None

        self._process.wait_until(ended, f"end of {self.name}", timeout)
        if self._error is not None:
            raise InteropError(f"{self.name} broke down\n{self.report()}")

    def kill(self) -> None:
        """Have it end at once and wait for nothing; it says good-bye to its servers if they are still there."""
        if not self._ended and self._process.running:
            self._tell(abandon=True)

    def report(self) -> str:
        """What it and the JVM have said lately."""
        said = section(f"{self.name}, output", "\n".join(self._lines[-40:]))
        return said + section(f"{self.name}, error", self._error or "") + self._process.report()

    def _tell(self, *, abandon: bool = False) -> None:
        self._process.write_line(json.dumps({"job": self._number, "abandon": abandon}))


@contextmanager
def shared(apache: Apache) -> Iterator[None]:
    """Have the drivers of a release share a JVM until the end of this."""
    with ExitStack() as stack:
        _open[apache.version] = {options: Jobs(apache, stack, options) for options in OPTIONS}
        try:
            yield
        finally:
            del _open[apache.version]


def begun(apache: Apache, main: str, arguments: Sequence[str], options: Sequence[str] = ()) -> Job | None:
    """A driver at work in a shared JVM of its release, or None where there is none or it knows no such driver."""
    jobs = _open.get(apache.version, {}).get(tuple(options))
    return jobs.begin(main, arguments) if jobs is not None and main in MAINS else None


def broadcast_offsets(apache: Apache) -> Path:
    """The directory in which consumers in the shared JVM keep their offsets when they broadcast."""
    return _open[apache.version][()].offsets
