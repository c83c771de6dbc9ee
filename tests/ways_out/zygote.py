"""A process that has imported everything, and forks for each case: a start of Python takes half a second, a fork none.

It has one thread and no portal, so what runs in the fork is a program like any other: it ends by its own will, with its
own exit status, standard output and standard error, and with everything that an interpreter does at its end.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
CASES = ("blocks", "programs", "programs_of_loops", "programs_of_admins", "crashes")
MODULES = tuple(f"tests.ways_out.{name}" for name in CASES)
SURFACES = ("rocketpy", "rocketpy.sync", "rocketpy.aio")
TOLD_SLOWNESS = "WAYS_OUT_SLOWNESS"
"""The variable of the environment in which cases find how slow the machine is."""
_DUMPS_WITHIN = 0.5
"""Seconds in which what has come to its bound writes down its stacks; then it is killed."""
_POLL = 0.002


@dataclass(frozen=True)
class Ended:
    """What became of a case.

    Attributes:
        status: its exit status; negative is the number of a signal.
        said: what it reported: see `say`.
        out: other lines of standard output.
        err: lines of standard error.
        seconds: how long it took.
    """

    status: int
    said: dict[str, Any]
    out: list[str]
    err: list[str]
    seconds: float

    def __str__(self) -> str:
        lines = [f"status {self.status} after {self.seconds:.2f} s, said {self.said}", *self.out, *self.err]
        return "\n".join(lines)


class Zygote:
    """For the tests: runs cases while the block of `with` does.

    Args:
        place: a directory for what cases print.
        slowness: of the machine, as the tests have measured it.

    Attributes:
        home: their home folder.
    """

    def __init__(self, place: Path, slowness: float) -> None:
        self._place = self.home = place
        self._slowness = slowness
        self._number = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-W", "always", "-m", "tests.ways_out.zygote"]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "HOME": str(self.home),  # where members of a broadcast keep their offsets
                TOLD_SLOWNESS: str(self._slowness),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._process:  # closes its pipes, which is its end
            pass

    def run(self, case: str, args: Mapping[str, Any], *, limit: float) -> Ended:
        """Run a case, `module:function`; after `limit` seconds it writes down its stacks and is killed."""
        self._number += 1
        out, err = (self._place / f"{self._number}.{kind}" for kind in ("out", "err"))
        request = {"case": case, "args": dict(args), "limit": limit, "out": str(out), "err": str(err)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        said: dict[str, Any] = {}
        lines = []
        for line in out.read_text().splitlines():
            if line.startswith("@"):
                said.update(json.loads(line[1:]))
            else:
                lines.append(line)
        return Ended(answer["status"], said, lines, err.read_text().splitlines(), answer["seconds"])


def say(**what: Any) -> None:
    """In a case: report something to the test, at once."""
    os.write(1, b"@" + json.dumps(what).encode() + b"\n")


# --- in the zygote -----------------------------------------------------------------------------------------


def _import_ahead() -> None:
    """Import what cases would: the names of the library come from modules that are imported when they are asked for."""
    import gc
    import importlib

    for name in MODULES:
        importlib.import_module(name)
    for name in SURFACES:
        surface = importlib.import_module(name)
        for public in surface.__all__:
            getattr(surface, public)
    # Or each fork would look through all of it once more at its end.
    gc.collect()
    gc.freeze()


def _main() -> None:
    _import_ahead()
    for line in sys.stdin:
        request = json.loads(line)
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            break
        status = status_of(pid, request["limit"])
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # a child of its own may hang, too
        print(json.dumps({"status": status, "seconds": time.monotonic() - began}), flush=True)
    else:
        return
    _become(request)


def status_of(pid: int, seconds: float) -> int:
    """The exit status of a child that has so many seconds; then it writes down its stacks, and is killed."""
    deadline = time.monotonic() + seconds
    signals = itertools.chain([signal.SIGUSR1], itertools.repeat(signal.SIGKILL))
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, next(signals))
            deadline += _DUMPS_WITHIN
        time.sleep(_POLL)


def _become(request: dict[str, Any]) -> None:
    """In the fork: run the case as the whole of this program."""
    import faulthandler
    import importlib

    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.close(nothing)
    # Not `dump_traceback_later`: its thread does not cross a fork, and a child of this would wait for it at its end.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    module, function = request["case"].split(":")
    getattr(importlib.import_module(module), function)(**request["args"])


if __name__ == "__main__":
    _main()
