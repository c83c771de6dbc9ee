"""Our servers as forks of a process that has imported them: to import them takes longer than all else of their start.

What runs in a fork is the command with its arguments, environment, directory and streams, and ends with an exit status.
Its parent waits for that, and does nothing else. tests/broker_sim starts the commands as users do.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from tests.interop import jvm

__all__ = ["Fork", "start"]

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("broker", "namesrv")
_LONGEST = 1 << 16
_MILLISECONDS = 1000


class Fork:
    """A command that runs; as much of `subprocess.Popen` as the harness needs.

    Args:
        request: What the fork is to be.
        errors: Where its standard error goes.
    """

    def __init__(self, request: Mapping[str, Any], errors: IO[bytes]) -> None:
        its_input, own_input = os.pipe()
        own_output, its_output = os.pipe()
        own_news, its_news = os.pipe()
        _ask(request, [its_input, its_output, errors.fileno(), its_news])
        for file in (its_input, its_output, its_news):
            os.close(file)
        self.stdin = open(own_input, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
        self.stdout = open(own_output, encoding="utf-8", errors="replace")  # noqa: SIM115
        self._news = open(own_news, "rb", buffering=0)  # noqa: SIM115
        self.returncode: int | None = None
        self.pid = int(self._news.readline())

    def poll(self) -> int | None:
        """The exit status, if it has ended."""
        return self._status(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit status.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return status

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()  # the file may have a number that is too high for `select.select`
            waiting.register(self._news, select.POLLIN)
            if waiting.poll(None if timeout is None else timeout * _MILLISECONDS):
                self.returncode = int(self._news.readline())
                self._news.close()
        return self.returncode


def start(command: Sequence[str], home: Path, environment: Mapping[str, str], errors: IO[bytes]) -> Fork:
    """Start one of our commands, which is the first word, with its arguments, in a directory."""
    request = {"command": command[0], "arguments": command[1:], "home": str(home), "environment": dict(environment)}
    return Fork(request, errors)


# --- the process that forks --------------------------------------------------------------------------------

_lock = threading.Lock()
_asked: list[socket.socket] = []


def _ask(request: Mapping[str, Any], files: Sequence[int]) -> None:
    with _lock:
        if not _asked:
            _begin()
        socket.send_fds(_asked[0], [json.dumps(request).encode() + b"\n"], files)
        _asked[0].recv(1)  # the next one must not come among this one


def _begin() -> None:
    own, its = socket.socketpair()
    environment = {**jvm.environment(ROOT), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.interop.forks", str(its.fileno())], cwd=ROOT, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its.fileno()],
    )  # fmt: skip
    its.close()
    _asked.append(own)

    def end() -> None:
        own.close()
        process.wait()

    atexit.register(end)


def main() -> None:
    """Fork for each request, until nobody is there who could ask; in a fork, be what was requested."""
    mains = {name: import_module(f"rocketpy_broker_sim.cli.{name}").main for name in COMMANDS}
    gc.collect()
    gc.freeze()  # or each fork would copy all of it as soon as it collects garbage
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        while True:
            text, files, *_ = socket.recv_fds(requests, _LONGEST, 4)
            if not text:
                return _reap()
            while not text.endswith(b"\n"):
                text += requests.recv(_LONGEST)
            if os.fork() == 0:
                break
            for file in files:
                os.close(file)
            requests.send(b".")
            _reap()
    request = json.loads(text)
    _become(request, files)
    sys.exit(mains[request["command"]](request["arguments"]))


def _reap() -> None:
    """Take in the ends of those who waited for servers that have ended, and with them what these have used."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Fork once more: the child goes on as a process of its own, the parent tells of it."""
    *streams, news = files
    child = os.fork()
    if child:
        _tell(child, streams, news)
    os.close(news)
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["home"])


def _tell(child: int, streams: Sequence[int], news: int) -> None:
    """Say its process id, and with which status it has ended; does not return."""
    try:
        for file in streams:
            os.close(file)
        os.write(news, b"%d\n" % child)
        _, status = os.waitpid(child, 0)
        os.write(news, b"%d\n" % os.waitstatus_to_exitcode(status))
    except BrokenPipeError:
        pass  # who has started it is gone
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
