"""A stop ends within five seconds whatever the peers of a server do, and what was acknowledged is on the disk."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from rocketpy.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import ConsumeFromWhere, ConsumeType, MessageModel
from rocketpy.wire.serialize import encode_command
from tests.broker_sim.broker.kit import SUBSCRIPTION, SUSPEND, pull_fields, send_fields
from tests.broker_sim.cli.servers import FREE_PORT, End, Place
from tests.pace import slowness

pytestmark = pytest.mark.slow

MOST = 5.0
"""Seconds that a stop may take; up to three of them are waits of the server, for name servers and for its peers."""
MESSAGES = 40
FROZEN = """
import socket, sys
host, port = sys.argv[1].split(":")
peer = socket.socket()
peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
peer.connect((host, int(port)))
peer.sendall(sys.stdin.buffer.read())
print("sent", flush=True)
peer.recv(1)
sys.stdin.read()
"""


def frame(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    return encode_command(RemotingCommand(code, fields or {}, body))


def pull(offset: int, *, flags: int = SUBSCRIPTION, group: str = "g") -> bytes:
    fields = pull_fields("T", 0, offset, sys_flag=flags, consumer_group=group, suspend_timeout_millis=25_000)
    return frame(RequestCode.PULL_MESSAGE, fields)


def connect(address: str, stack: ExitStack, *, buffer: int | None = None) -> socket.socket:
    host, _, port = address.rpartition(":")
    peer = stack.enter_context(socket.socket())
    if buffer is not None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    peer.settimeout(20)
    peer.connect((host, int(port)))
    return peer


def answer(peer: socket.socket) -> bytes:
    """The next frame, without its length."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = peer.recv(1 << 16)
        assert more, "the server has closed the connection"
        data += more
    return data[4:]


# --- what peers do -------------------------------------------------------------------------------------

Peers = Callable[[str, ExitStack], object]


def read_nothing(address: str, stack: ExitStack) -> None:
    for _ in range(5):
        connect(address, stack, buffer=4096).sendall(pull(0) * 200)


def are_frozen(address: str, stack: ExitStack) -> None:
    for _ in range(3):
        process = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", FROZEN, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        stack.callback(process.kill)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pull(0) * 200)
        process.stdin.close()
        assert process.stdout.readline() == b"sent\n"
        process.send_signal(signal.SIGSTOP)


def hold_pulls(address: str, stack: ExitStack) -> None:
    for number in range(4):
        held = b"".join(pull(MESSAGES, flags=SUBSCRIPTION | SUSPEND, group=f"g{number}-{n}") for n in range(1000))
        peer = connect(address, stack, buffer=4096)
        peer.sendall(held + frame(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}))
        answer(peer)


def are_half_open(address: str, stack: ExitStack) -> None:
    for number in range(200):
        connect(address, stack).sendall(pull(0)[: number % 50])


def have_large_work_done(address: str, stack: ExitStack) -> None:
    groups = [
        ConsumerData(
            group_name=f"group-{number}",
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=[],
        )
        for number in range(900)
    ]
    beat = frame(RequestCode.HEART_BEAT, body=HeartbeatData(client_id="c", consumer_data_set=groups).encode())
    for _ in range(4):
        peer = connect(address, stack)
        peer.setblocking(False)
        try:
            while peer.send(beat) == len(beat):
                continue
        except BlockingIOError:
            continue


ALL: dict[str, Peers] = {
    "read nothing": read_nothing,
    "are frozen": are_frozen,
    "hold pulls": hold_pulls,
    "are half open": are_half_open,
    "have large work done": have_large_work_done,
}


@contextmanager
def hanging_name_server() -> Iterator[str]:
    """Takes connections and requests, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:

        def accept() -> None:
            while True:
                try:
                    stack.enter_context(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


# --- the stop ------------------------------------------------------------------------------------------


IN_TURN = pytest.mark.alone("waits for several peers in turn: of its five seconds little is left for a busy machine")
AT_WORK = pytest.mark.alone("waits for peers and has much to do: of its five seconds little is left for a busy machine")
MARKS = {"hold pulls": AT_WORK, "have large work done": AT_WORK, "all of it": IN_TURN}
"""The others wait as well, but they need so little of the processor that busy neighbours do not matter."""


def in_time(end: End) -> bool:
    """Whether a stop took at most five seconds of an ordinary machine."""
    return end.seconds <= MOST or end.seconds / slowness() <= MOST


@pytest.mark.parametrize("what", [pytest.param(what, marks=MARKS.get(what, ())) for what in [*ALL, "all of it"]])
def test_a_broker_stops_within_five_seconds_whatever_its_peers_do(place: Place, what: str) -> None:
    with ExitStack() as stack:
        text = FREE_PORT
        if what == "all of it":
            name_server = stack.enter_context(hanging_name_server())
            text += f"namesrvAddr={name_server}\nregisterBrokerTimeoutMills=300\n"
        options = ["-c", place.write("broker.conf", text)]
        with place.serving("rocketpy-broker", *options) as server:
            producer = connect(server.address, stack)
            for number in range(MESSAGES):
                body = b"%d" % number + bytes(100_000)
                producer.sendall(frame(RequestCode.SEND_MESSAGE_V2, send_fields("T"), body))
                assert b'"code":0' in answer(producer)
            for name, peers in ALL.items():
                if what in (name, "all of it"):
                    peers(server.address, stack)
            end = server.stop()
        assert (end.status, end.out) == (0, "")
        assert in_time(end), end.seconds
    assert not (place.home / "store" / "abort").exists()
    with place.serving("rocketpy-broker", "-c", place.write("again.conf", FREE_PORT)) as server, ExitStack() as stack:
        peer = connect(server.address, stack)
        peer.sendall(frame(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}))
        assert b'"offset":"%d"' % MESSAGES in answer(peer)


def test_a_broker_that_name_servers_leave_hanging_stops_within_five_seconds(place: Place) -> None:
    with hanging_name_server() as first, hanging_name_server() as second:
        text = f"{FREE_PORT}namesrvAddr={first};{second}\nregisterBrokerTimeoutMills=300\n"
        with place.serving("rocketpy-broker", "-c", place.write("broker.conf", text)) as server:
            end = server.stop()
    assert end.status == 0, end.err
    assert in_time(end), end.seconds


@pytest.mark.parametrize("program", ["rocketpy-namesrv", pytest.param("rocketpy-broker-sim", marks=IN_TURN)])
def test_a_name_server_stops_within_five_seconds_whatever_its_peers_do(place: Place, program: str) -> None:
    options = ["--port", "0"] if program == "rocketpy-broker-sim" else ["-c", place.write("names.conf", FREE_PORT)]
    ask = frame(RequestCode.GET_BROKER_CLUSTER_INFO) * 2000
    with ExitStack() as stack, place.serving(program, *options) as server:
        for address in server.addresses:
            for _ in range(20):
                peer = connect(address, stack, buffer=4096)
                peer.setblocking(False)
                try:
                    while peer.send(ask):
                        continue
                except BlockingIOError:
                    pass
                connect(address, stack).sendall(ask[:30])
        end = server.stop()
    assert end.status == 0, end.err
    assert in_time(end), end.seconds
