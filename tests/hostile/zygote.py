"""Processes that have imported a program, and fork for each start: a start of Python takes long, a fork does not.

What runs in the fork is the program as a command would run it: with its own arguments, folder, environment, standard
output and standard error, and nothing that another start has left. Only the hashes of texts are those of other starts.
`python -m tests.hostile.zygote SOCKET MODULE...` is a zygote; it ends, and all that it has forked, with its socket.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.broker_sim.cli.servers import ROOT

_MOST = 256 * 1024
"""Bytes of a request."""


class Forked:
    """A process that a zygote has forked; it looks like one of `subprocess`.

    It is reaped only here, so that its number stands for nobody else before that.
    """

    def __init__(self, zygote: Zygote, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._zygote = zygote
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ending = select.poll()  # its number may be too high for `select.select`: crowds are of thousands
            ending.register(self._ended, select.POLLIN)
            if not ending.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self.returncode = self._zygote.reap(self.pid)
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._ended, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Zygote:
    """For the tests: forks processes of one program, `module`, which has a function `main` without arguments.

    Args:
        module: The program.
        more: Other modules that it will import.
    """

    def __init__(self, module: str, *more: str) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            number = other.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.zygote", str(number), module, *more],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
            )

    def run(self, arguments: list[str], *, home: Path, environment: Mapping[str, str], errors: int) -> Forked:
        """Fork a process that runs the program.

        Args:
            arguments: Those of its command line.
            home: Its folder.
            environment: All of its variables.
            errors: The file for its standard error.
        """
        read, write = os.pipe()
        request = {"arguments": arguments, "home": str(home), "environment": dict(environment)}
        socket.send_fds(self._socket, [json.dumps(request).encode()], [write, errors])
        os.close(write)
        return Forked(self, self._answer(), os.fdopen(read, "rb"))

    def reap(self, pid: int) -> int:
        """The status of a process that has ended, as `subprocess` has it."""
        self._socket.send(json.dumps({"reap": pid}).encode())
        return self._answer()

    def _answer(self) -> int:
        answer = self._socket.recv(_MOST)
        assert answer, "the zygote has ended"
        return int(answer)

    def close(self) -> None:
        """End it, and all that it has forked."""
        self._socket.close()
        self._process.wait()


# --- in the zygote -----------------------------------------------------------------------------------------


def _main() -> int:
    number, module, *more = sys.argv[1:]
    link = socket.socket(fileno=int(number))
    program = importlib.import_module(module)
    for name in more:
        importlib.import_module(name)
    # Ctrl-C is for the tests, which end their servers; those are given back how they take it.
    taken = signal.signal(signal.SIGINT, signal.SIG_IGN)
    alive: set[int] = set()
    while True:
        data, files, _, _ = socket.recv_fds(link, _MOST, 2)
        if not data:
            break
        request = json.loads(data)
        if "reap" in request:
            alive.discard(request["reap"])
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        elif answer := os.fork():
            alive.add(answer)
            for file in files:
                os.close(file)
        else:
            signal.signal(signal.SIGINT, taken)
            link.close()
            _become(request, module, files)
            return int(program.main() or 0)
        link.send(b"%d" % answer)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    return 0


def _become(request: dict[str, object], module: str, files: list[int]) -> None:
    """Take the place that a command would have been started in."""
    for file, standard in zip(files, (1, 2), strict=True):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(request["home"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [module, *request["arguments"]]


if __name__ == "__main__":
    sys.exit(_main())
