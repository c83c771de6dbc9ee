"""Server commands as real processes, each with directories of its own: nothing of the machine's user is touched."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULES = {
    "rocketpy-namesrv": "rocketpy_broker_sim.cli.namesrv",
    "rocketpy-broker": "rocketpy_broker_sim.cli.broker",
    "rocketpy-broker-sim": "rocketpy_broker_sim",
}
ADDRESS = re.compile(r"127\.0\.0\.1:\d+|0\.0\.0\.0:\d+|\[::1\]:\d+")
STOCK = """\
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""
"""broker.conf as releases 4.x and 5.x bring it."""
FREE_PORT = "bindAddress=127.0.0.1\nlistenPort=0\n"


class Place:
    """A home for servers: where they keep files, and what they find in their environment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "run").mkdir()
        self.environment = {
            name: value for name, value in os.environ.items() if name not in ("NAMESRV_ADDR", "PYTHONUNBUFFERED")
        } | {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PYTHONPATH": str(ROOT)}

    def write(self, name: str, text: str) -> str:
        """Write a configuration file; returns its path."""
        path = self.home / name
        path.write_text(text, "utf-8")
        return str(path)

    def command(self, program: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", MODULES[program], *arguments]

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        command = self.command(program, *arguments)
        return subprocess.run(command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=60)

    @contextmanager
    def serving(self, program: str, *arguments: str, **more: object) -> Iterator[Server]:
        """A server that serves; killed at the end of the block when it still runs."""
        with self.starting(program, *arguments, **more) as server:
            server.wait_boot()
            yield server

    @contextmanager
    def starting(self, program: str, *arguments: str, **more: object) -> Iterator[Server]:
        """A server that is being started."""
        command = self.command(program, *arguments)
        with subprocess.Popen(
            command,
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,  # type: ignore[call-overload]
        ) as process:
            try:
                yield Server(process)
            finally:
                if process.poll() is None:
                    process.kill()


class Server:
    """A process: the line that it booted with, and its end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.line = ""

    def wait_boot(self) -> None:
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().rstrip("\n")
        assert "boot success" in self.line, self.line + (self.process.communicate(timeout=20)[1] or "")

    @property
    def addresses(self) -> list[str]:
        """Where it says that it serves."""
        return ADDRESS.findall(self.line)

    @property
    def address(self) -> str:
        return self.addresses[0]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> End:
        """Send a signal and wait for the end."""
        began = time.monotonic()
        self.send(number)
        return self.wait_end(began)

    def wait_end(self, began: float | None = None) -> End:
        began = time.monotonic() if began is None else began
        out, err = self.process.communicate(timeout=60)
        return End(self.process.returncode, out, err, time.monotonic() - began)


class End:
    """How a process ended."""

    def __init__(self, status: int, out: str, err: str, seconds: float) -> None:
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it closed the port before it took the connection
        return False
    return True
