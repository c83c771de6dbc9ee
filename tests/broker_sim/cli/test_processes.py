"""Servers as processes: one line when they serve, signals, the store that each has for itself."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import rocketpy.sync
from rocketpy import Message
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from tests.broker_sim.broker.kit import pull_fields, send_fields
from tests.broker_sim.cli.servers import FREE_PORT, STOCK, Place, Server, listens
from tests.pace import slowness

pytestmark = pytest.mark.slow
AS_ANOTHER_USER = """
import encodings.utf_8_sig, os, sys
from rocketpy_broker_sim.cli.broker import main
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main())
"""
PROGRAMS = ["rocketpy-namesrv", "rocketpy-broker", "rocketpy-broker-sim"]


def arguments(place: Place, program: str) -> list[str]:
    """What a server is started with to take any free port."""
    if program == "rocketpy-broker-sim":
        return ["--port", "0"]
    return ["-c", place.write(f"{program}.conf", FREE_PORT)]


def send(name_servers: str, count: int = 1) -> None:
    with rocketpy.sync.Producer("p", namesrv=name_servers) as producer:
        for number in range(count):
            producer.send(Message("T", str(number).encode()))


# --- start and stop ------------------------------------------------------------------------------------


@pytest.mark.alone("a second for the end of a whole process leaves nothing for others that are busy")
@pytest.mark.parametrize("program", PROGRAMS)
def test_LC1_one_line_when_it_serves_and_a_clean_end_within_a_second(place: Place, program: str) -> None:
    with place.serving(program, *arguments(place, program)) as server:
        assert all(map(listens, server.addresses))
        end = server.stop()
    assert (end.status, end.out, end.err) == (0, "", "")
    assert end.seconds < 1 or end.seconds / slowness() < 1
    assert not any(map(listens, server.addresses))
    assert list((place.home / "run" / "rocketpy").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_LC1_other_signals_stop_as_well(place: Place, number: signal.Signals) -> None:
    with place.serving("rocketpy-broker", *arguments(place, "rocketpy-broker")) as server:
        end = server.stop(number)
    assert (end.status, end.out, end.err) == (0, "", "")
    assert not (place.home / "store" / "abort").exists()


def test_signals_that_are_to_be_ignored_are_ignored(place: Place) -> None:
    """As a shell without job control starts its background jobs: Ctrl-C is not for them."""

    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    options = arguments(place, "rocketpy-namesrv")
    with place.serving("rocketpy-namesrv", *options, preexec_fn=ignore) as server:
        server.send(signal.SIGINT)
        assert listens(server.address)
        assert server.stop().status == 0


def test_LC1_three_processes_work_together_and_a_restarted_broker_has_everything(place: Place) -> None:
    with place.serving("rocketpy-namesrv", *arguments(place, "rocketpy-namesrv")) as names:
        options = [*arguments(place, "rocketpy-broker"), "-n", names.address]
        for _ in range(2):
            with place.serving("rocketpy-broker", *options) as broker:
                assert f"name server {names.address}" in broker.line
                send(names.address, 4)
                assert broker.stop().status == 0
        log = place.home / "store" / "commitlog" / "00000000000000000000"
        with log.open("rb") as file:
            assert file.read(1 << 20).count(b"UNIQ_KEY") == 8


def test_LC1_the_stock_configuration_serves_every_interface_and_says_so(place: Place) -> None:
    """As it is but for the port, which may be in use on this machine."""
    file = place.write("broker.conf", STOCK + "listenPort = 0\n")
    with place.serving("rocketpy-broker", "-c", file) as server:
        assert "broker-a serves on" in server.line
        assert "no name server" in server.line
        end = server.stop()
    assert end.status == 0
    assert end.err.splitlines() == [
        "rocketpy-broker: warning: listening on every interface without credentials: "
        "set bindAddress=127.0.0.1 to serve this machine only"
    ]
    assert (place.home / "store" / "checkpoint").exists()


def test_the_sim_keeps_its_messages_where_it_is_told(place: Place) -> None:
    for _ in range(2):
        with place.serving("rocketpy-broker-sim", "--port", "0", "--data", str(place.home / "data")) as server:
            assert "data in" in server.line
            send(server.address, 2)
            assert server.stop().status == 0
    log = place.home / "data" / "broker-a" / "commitlog" / "00000000000000000000"
    with log.open("rb") as file:
        assert file.read(1 << 20).count(b"__CRC32#") == 4


def test_threat_A3_the_sim_serves_other_machines_when_told_so_in_words(place: Place) -> None:
    with place.serving("rocketpy-broker-sim", "--host", "0.0.0.0", "--port", "0", "--insecure") as server:
        send(server.address)
        assert server.stop().status == 0


def test_a_server_does_without_those_who_read_its_output(place: Place) -> None:
    read, write = os.pipe()
    os.close(read)
    log = place.home / "log"
    command = place.command("rocketpy-broker-sim", "--port", "0", "--log", str(log))
    with subprocess.Popen(command, env=place.environment, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        # The run file is there once it serves; its end tells that the server lives on after it.
        while not list((place.home / "run").glob("rocketpy/sim-*")):
            assert process.poll() is None
        end = place.run("rocketpy-broker-sim", "stop", "sim")
        assert end.returncode == 0, end.stderr
        assert process.communicate(timeout=20)[1] == b""
    assert process.returncode == 0


def test_the_demonstration_sends_and_consumes(place: Place) -> None:
    shown = place.run("rocketpy-broker-sim", "demo", "--count", "5")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert len([line for line in lines if line.startswith("  sent ")]) == 5
    assert {line.split()[2] for line in lines if line.startswith("  received ")} == {"0", "1", "2", "3", "4"}
    assert lines[-1].startswith("5 sent, 5 received in ")


# --- signals -------------------------------------------------------------------------------------------


def test_threat_L13_the_second_signal_ends_at_once_and_no_file_is_half_written(place: Place) -> None:
    options = arguments(place, "rocketpy-broker")
    with place.serving("rocketpy-broker", *options) as server, a_peer_that_does_not_read(server):
        server.send(signal.SIGTERM)
        # It closes its port first, and then waits for the peer to take its answers.
        while listens(server.address):
            assert server.process.poll() is None
        end = server.stop()
    assert end.status == -signal.SIGTERM  # by the system: its own wait for the peer was cut off
    assert end.seconds < 5
    assert (place.home / "store" / "abort").exists()
    with place.serving("rocketpy-broker", *options) as server:
        assert server.stop().status == 0
    assert not (place.home / "store" / "abort").exists()


@contextlib.contextmanager
def a_peer_that_does_not_read(server: Server):
    """Let a broker owe more answers than sockets take."""
    host, _, port = server.address.rpartition(":")
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect((host, int(port)))
        body = bytes(256 * 1024)
        peer.sendall(frame(RequestCode.SEND_MESSAGE_V2, send_fields("T"), body, 0))
        assert peer.recv(4096)
        for opaque in range(1, 33):
            peer.sendall(frame(RequestCode.PULL_MESSAGE, pull_fields("T", 0, 0), b"", opaque))
        assert peer.recv(16)
        yield


def frame(code: int, fields: dict[str, str], body: bytes, opaque: int) -> bytes:
    return encode_command(RemotingCommand(code, fields, body, opaque))


def test_threat_L13_a_signal_breaks_off_a_start(place: Place) -> None:
    """A name server that takes connections and says nothing keeps a start waiting for long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        options = [*arguments(place, "rocketpy-broker"), "-n", address]
        with place.starting("rocketpy-broker", *options) as server:
            with silent.accept()[0] as connection:
                assert connection.recv(1024)
                end = server.stop()
    assert (end.status, end.out) == (0, "")
    assert "Traceback" not in end.err
    assert not (place.home / "store" / "abort").exists()


# --- what keeps a server from starting -----------------------------------------------------------------


def test_threat_L11_a_second_broker_on_the_same_store_is_refused(place: Place) -> None:
    options = arguments(place, "rocketpy-broker")
    with place.serving("rocketpy-broker", *options) as first:
        second = place.run("rocketpy-broker", *options)
        assert (second.returncode, second.stdout) == (1, "")
        assert "in use by another broker" in second.stderr
        assert str(place.home / "store") in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert listens(first.address)
        assert first.stop().status == 0


def test_a_store_that_belongs_to_somebody_else(place: Place) -> None:
    """Of another user, where the test may become one; else of nobody who may write."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        home.chmod(0o755)
        (home / "broker.conf").write_text(f"{FREE_PORT}storePathRootDir={home}/theirs/store\n")
        (home / "theirs").mkdir(mode=0o555)
        environment = {**place.environment, "HOME": directory, "XDG_RUNTIME_DIR": directory}
        command = [sys.executable, "-c", AS_ANOTHER_USER, "-c", str(home / "broker.conf")]
        ended = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "permission denied" in ended.stderr
    assert "/theirs/store" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


# --- stop ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_LC1_the_stop_command_finds_stops_and_waits(place: Place, program: str) -> None:
    role = {"rocketpy-namesrv": "namesrv", "rocketpy-broker": "broker", "rocketpy-broker-sim": "sim"}[program]
    with place.serving(program, *arguments(place, program)) as server:
        stopped = place.run("rocketpy-broker-sim", "stop", role)
        assert (stopped.returncode, stopped.stderr) == (0, "")
        assert not listens(server.address)
        end = server.wait_end()
    assert (end.status, end.err) == (0, "")
    asked, done = stopped.stdout.splitlines()
    assert f"at {server.address} (pid {server.process.pid}) is asked to stop" in asked
    assert done.endswith("has stopped")


def test_stop_takes_all_of_a_kind_and_no_other(place: Place) -> None:
    names = place.serving("rocketpy-namesrv", *arguments(place, "rocketpy-namesrv"))
    with names as kept, place.serving("rocketpy-broker-sim", "--port", "0") as one:
        with place.serving("rocketpy-broker-sim", "--port", "0") as other:
            stopped = place.run("rocketpy-broker-sim", "stop", "sim")
            assert stopped.returncode == 0
            assert stopped.stdout.count("has stopped") == 2
            assert other.wait_end().status == one.wait_end().status == 0
        assert listens(kept.address)


def test_stop_that_is_not_done_in_time_says_so(place: Place) -> None:
    with place.serving("rocketpy-broker", *arguments(place, "rocketpy-broker")) as server:
        with a_peer_that_does_not_read(server):
            stopped = place.run("rocketpy-broker-sim", "stop", "broker", "--wait", "0.1")
            assert stopped.returncode == 1
            assert "is asked to stop" in stopped.stdout
            assert "not all have stopped within 0.1 s" in stopped.stderr
        assert server.wait_end().status == 0


def test_a_server_that_was_killed_is_not_stopped_again(place: Place) -> None:
    with place.serving("rocketpy-namesrv", *arguments(place, "rocketpy-namesrv")) as server:
        assert server.stop(signal.SIGKILL).status == -signal.SIGKILL
    left = list((place.home / "run" / "rocketpy").iterdir())
    assert len(left) == 1
    stopped = place.run("rocketpy-broker-sim", "stop", "namesrv")
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert "no rocketpy-namesrv of yours runs here" in stopped.stderr
    assert not left[0].exists()
