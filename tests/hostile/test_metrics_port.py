"""The port with metrics under attack: nobody beside waits, and who asks for the page as Prometheus does gets it."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from rocketpy.wire.hosts import parse_address
from rocketpy_broker_sim.metrics.http import LINGER, MAX_HEAD
from rocketpy_broker_sim.metrics.port import MOST_CONNECTIONS
from tests.broker_sim.metrics.kit import Scrape
from tests.hostile.frames import MIB
from tests.hostile.innocent import TOPIC, route_request
from tests.hostile.measure import SLACK, Watch
from tests.hostile.peer import Peer, wait_until
from tests.hostile.report import Report
from tests.hostile.test_crowds import finish
from tests.hostile.world import ROLES, Served, World

pytestmark = [
    pytest.mark.quiet("measures turns, waits and memory of servers"),
    pytest.mark.slow,
    pytest.mark.waits("looks at real servers for seconds, while peers of their ports with metrics misbehave"),
]

GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
LEAVING = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
PAGE_WITHIN = 6.0
"""Seconds in which an honest scraper has the page: those that stall make room after one, and others may come first.

Prometheus waits for ten. Peers for whom no room had to be made would keep a scraper out for ten and more, those that
send heads by the byte for five: of these the test looks whether they were closed.
"""
OTHERS = 8
"""Files that a server may open meanwhile: of its store, and connections that it has not looked at yet."""
BY_DAY_THE_BROKER = ["broker", pytest.param("namesrv", marks=pytest.mark.matrix)]
"""Both have the same port; that of the name server is attacked with the matrices."""
_RESET = struct.pack("ii", 1, 0)


# --- an honest scraper, and what is looked at ---------------------------------------------------------------


def page(address: str) -> bytes:
    """The page, as Prometheus asks for it: one request on a connection of its own, which it gives up after a while."""
    host, port = parse_address(address)
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=PAGE_WITHIN)) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK
        return answer.read()


def scrape(served: Served) -> None:
    """Get a page that is whole, within the time for it. Who is turned away asks again, as Prometheus does later."""
    began = time.monotonic()
    while True:
        try:
            found = Scrape(page(served.metrics).decode())
            break
        except (OSError, http.client.HTTPException):
            assert time.monotonic() - began < PAGE_WITHIN, "no page"
            time.sleep(0.05)
    if served.role == "broker":
        assert found.one("rocketmq_queue_messages_total", topic=TOPIC, queue=0) >= 1


def descriptors(served: Served) -> int:
    """How many files and connections a server has open."""
    return len(os.listdir(f"/proc/{served.process.pid}/fd"))


@contextlib.contextmanager
def siege(served: Served, what: str, report: Report, *, size: int = 0) -> Iterator[Callable[[], Peer]]:
    """Watch an attack, which makes its connections by what this gives. At its height the honest one has the page.

    Whatever connects, the port has its connections and no more; nothing of them is left afterwards.
    """
    assert served.metrics
    before = descriptors(served)
    to = {"namesrv": "name server"}.get(served.role, served.role)
    with contextlib.ExitStack() as peers, Watch(served, f"metrics of the {to}: {what}", size=size) as watch:
        yield lambda: peers.enter_context(Peer(served.metrics, receive_buffer=4096))
        scrape(served)
        assert wait_until(lambda: descriptors(served) <= before + MOST_CONNECTIONS + OTHERS, 2), descriptors(served)
    finish(watch, report, grows=SLACK)
    assert wait_until(lambda: descriptors(served) <= before + OTHERS, LINGER + 2), (before, descriptors(served))


def is_closed(peer: Peer) -> bool:
    """Whether the server closes a connection, whatever it says before."""
    peer.socket.settimeout(LINGER + 2)
    try:
        while peer.socket.recv(64 * 1024):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def status(peer: Peer) -> int:
    """The status of the answer that comes, and the connection ends with it."""
    text = b""
    with contextlib.suppress(ConnectionResetError):
        while data := peer.socket.recv(64 * 1024):
            text += data
    return int(text.split(b" ", 2)[1])


@contextlib.contextmanager
def meanwhile(work: Callable[[threading.Event], None], threads: int) -> Iterator[None]:
    """Have threads do something until the end of the block; they are told when that is."""
    stop = threading.Event()
    made = [threading.Thread(target=work, args=(stop,), daemon=True) for _ in range(threads)]
    for thread in made:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in made:
            thread.join()


# --- peers that say nothing, or not what they should ----------------------------------------------------------


def test_peers_that_never_send_make_room(world: World, report: Report) -> None:
    served = world.broker
    with siege(served, "peers that never send", report) as connect:
        silent = [connect() for _ in range(5 * MOST_CONNECTIONS)]
        for peer in silent[: -2 * MOST_CONNECTIONS]:
            assert is_closed(peer)


def test_heads_that_come_by_the_byte_make_room(world: World, report: Report) -> None:
    with siege(world.broker, "slow heads", report) as connect:
        slow = [connect() for _ in range(2 * MOST_CONNECTIONS)]
        for byte in GET[:-2]:
            for peer in slow:
                peer.send(bytes([byte]))
            time.sleep(0.01)
        for peer in slow[:MOST_CONNECTIONS]:
            assert is_closed(peer)


def test_heads_beyond_the_bound_are_refused(world: World, report: Report) -> None:
    """Each of a megabyte, of which the server reads little more than its bound."""
    served = world.broker
    head = GET[:-2] + b"".join(b"X-%d: %s\r\n" % (number, b"v" * 100) for number in range(MIB // 110))
    with siege(served, "heads of 1 MiB", report, size=MAX_HEAD) as connect:
        for _ in range(2 * MOST_CONNECTIONS):
            peer = connect()
            peer.send(head)
            assert status(peer) == http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


def test_garbage_is_refused(world: World, report: Report) -> None:
    """Other protocols, and bytes that are none."""
    made = random.Random(1)
    garbage = [
        route_request(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + made.randbytes(500),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0" * 20_000,
        b"\r\n" * 20_000,
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n" + bytes(200_000),
        *(made.randbytes(4_000) + b"\r\n\r\n" for _ in range(40)),
    ]
    with siege(world.broker, "garbage", report) as connect:
        for text in garbage:
            peer = connect()
            peer.send(text)
            with contextlib.suppress(OSError):
                peer.socket.shutdown(socket.SHUT_WR)
            assert is_closed(peer), text[:40]


# --- peers that ask for much ----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", BY_DAY_THE_BROKER)
def test_scrapes_without_a_pause_keep_nobody_out(world: World, report: Report, role: str) -> None:
    """As many as the port serves have always the next requests ready, read all answers, and come again when closed."""
    served = world.served[role]
    read = 0

    def pipeline(stop: threading.Event) -> None:
        nonlocal read
        while not stop.is_set():
            with contextlib.suppress(OSError), Peer(served.metrics, timeout=0.5) as peer:
                peer.send(GET * 200)
                while not stop.is_set() and (data := peer.socket.recv(256 * 1024)):
                    read += len(data)

    with siege(served, "pipelined scrapes", report), meanwhile(pipeline, MOST_CONNECTIONS):
        time.sleep(0.3)
        for _ in range(5):
            scrape(served)
        end = time.monotonic() + 10
        while read <= MIB and time.monotonic() < end:  # a slow machine needs longer for as much
            scrape(served)
    assert read > MIB, read


def test_peers_that_do_not_read_make_room(world: World, report: Report) -> None:
    served = world.broker
    with siege(served, "peers that do not read", report) as connect:
        for _ in range(2 * MOST_CONNECTIONS):
            connect().send(GET * 5_000)
        began = time.monotonic()
        scrape(served)
        assert time.monotonic() - began < PAGE_WITHIN


# --- peers that come and go -----------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("role", ROLES)
def test_who_connects_without_end_keeps_nobody_out(world: World, report: Report, role: str) -> None:
    """Some leave at once, some reset, some ask for the page before they do."""
    served = world.served[role]
    made = 0

    def come_and_go(stop: threading.Event) -> None:
        nonlocal made
        while not stop.is_set():
            with contextlib.suppress(OSError), Peer(served.metrics) as peer:
                made += 1
                if made % 3:
                    peer.send(GET[: 10 * (made % 3)] if made % 2 else GET)
                if made % 5 == 0:
                    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    with siege(served, "two that connect without end", report), meanwhile(come_and_go, 2):
        time.sleep(0.3)
        for _ in range(3):
            scrape(served)
    assert made > 100, made


def test_who_says_no_more_gets_the_answer(world: World, report: Report) -> None:
    """Half of a connection is closed behind a request, in the middle of one, or before any."""
    with siege(world.broker, "half closed connections", report) as connect:
        for _ in range(10):
            for text, expected in ((GET, 200), (LEAVING, 200), (GET[:-2], None), (b"", None)):
                peer = connect()
                peer.send(text)
                peer.socket.shutdown(socket.SHUT_WR)
                if expected is None:
                    assert is_closed(peer)
                else:
                    assert status(peer) == expected
