"""Floods of connections over real sockets: a server of its own process, with few descriptors or many."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.serialize import decode_command, encode_command
from tests.remoting.helpers import ECHO

pytestmark = pytest.mark.waits("floods a server in a process of its own")

resource = pytest.importorskip("resource")

STATE = 7010
ROOT = Path(__file__).resolve().parents[2]
FEW = 64
CROWD = 1900  # one host may have 2,000


class Caller:
    """A blocking client of the plainest kind."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def ask(self, code: int, body: bytes = b"") -> RemotingCommand:
        decoder = FrameDecoder()
        self.socket.sendall(encode_command(RemotingCommand(code, body=body)))
        while True:
            data = self.socket.recv(65536)
            assert data, "the server has hung up"
            decoder.receive_data(data)
            for frame in decoder.frames():
                return decode_command(frame)

    def state(self) -> dict[str, float]:
        found: dict[str, float] = json.loads(self.ask(STATE).body)
        return found

    def close(self) -> None:
        self.socket.close()


@contextmanager
def flooded_server(descriptors: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "tests.remoting.flooded", str(descriptors)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process
        finally:
            process.kill()


@contextmanager
def descriptors_for(count: int) -> Iterator[None]:
    """Let this process open so many files, or skip the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this account may open {hard} files, the test needs {count}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def knock(port: int) -> socket.socket:
    """Begin to connect, and do not wait for it: with its queue full the system does not answer."""
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("127.0.0.1", port))
    return made


def settled(caller: Caller, baseline: dict[str, float]) -> bool:
    """Whether the server holds what it held before, within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        now = caller.state()
        if (now["descriptors"], now["connections"]) == (baseline["descriptors"], baseline["connections"]):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
def test_threat_L1_a_server_without_descriptors_serves_on_and_takes_connections_again() -> None:
    with flooded_server(FEW) as (port, process):
        old = Caller(port)
        baseline = old.state()
        with ExitStack() as stack:
            for _ in range(4 * FEW):
                stack.callback(knock(port).close)
            deadline = time.monotonic() + 10
            while (full := old.state())["descriptors"] < FEW and time.monotonic() < deadline:
                time.sleep(0.01)
            assert full["descriptors"] == FEW
            begun = time.monotonic()
            while time.monotonic() - begun < 0.5:
                assert old.ask(ECHO, b"still there").body == b"still there"
                time.sleep(0.02)
            # It pauses between its tries to accept: trying without a pause would take all the time there is.
            assert old.state()["cpu"] - full["cpu"] < 0.25
        assert settled(old, baseline)
        new = Caller(port)
        assert new.ask(ECHO, b"new").body == b"new"
        new.close()
        old.close()
        process.kill()
        assert process.stderr is not None
        complaints = [line for line in process.stderr.read().splitlines() if "no connection can be accepted" in line]
        assert len(complaints) == 1


@pytest.mark.slow
def test_threat_L1_a_storm_of_connects_and_closes_leaves_nothing_behind() -> None:
    with flooded_server(512) as (port, _):
        old = Caller(port)
        baseline = old.state()
        for number in range(2000):
            with ExitStack() as stack:
                made = knock(port)
                stack.callback(made.close)
                if number % 100 == 0:
                    assert old.ask(ECHO, b"%d" % number).body == b"%d" % number
        assert settled(old, baseline)
        old.close()


@pytest.mark.slow
def test_threat_L1_two_thousand_peers_are_served_side_by_side() -> None:
    with descriptors_for(CROWD + 200), flooded_server(CROWD + 200) as (port, _):
        old = Caller(port)
        baseline = old.state()
        with ExitStack() as stack:
            crowd = []
            for _ in range(CROWD):
                crowd.append(Caller(port))
                stack.callback(crowd[-1].close)
            assert all(caller.ask(ECHO, b"x").body == b"x" for caller in crowd)
            assert old.state()["connections"] == CROWD + 1
        assert settled(old, baseline)
        old.close()
