"""Sockets and forks: the copies of a child are closed at once, and neither the parent nor a peer notices."""

from __future__ import annotations

import os
import random
import socket
import threading
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.remoting.backoff import FullJitter
from rocketpy.remoting.fork import close_in_child, no_fork
from rocketpy.remoting.network import TcpNetwork, address_of_listener
from rocketpy.seams import random_source, set_random_seed
from rocketpy.wire.hosts import parse_address
from tests.forking import in_child, open_links, tcp_ports
from tests.remoting.helpers import stream_pair

if not hasattr(os, "fork") or not Path("/proc/self/fd").exists():
    pytest.skip("there are no forks here, or no way to see what a child has open", allow_module_level=True)


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


def port_of(sock):
    return sock.getsockname()[1]


def has(port):
    """Whether this process has a TCP socket of that port."""
    return any(port in ports for ports in tcp_ports())


# --- one socket ----------------------------------------------------------------------------------------


def test_a_child_has_it_no_more_and_its_peer_sees_nothing_of_that(pair):
    near, far = pair
    port = port_of(near)
    assert in_child(lambda: near.getsockname()[1]) == str(port), "a child inherits what nobody named"
    close_in_child(near)
    assert in_child(lambda: (near.fileno(), [ports for ports in tcp_ports() if ports[0] == port])) == "(-1, [])"
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(1)
    near.sendall(b"on we go")
    far.setblocking(True)
    assert far.recv(100) == b"on we go"


def test_a_socket_that_a_file_counts_on_is_closed_too(pair):
    near, _ = pair
    port = port_of(near)
    close_in_child(near)
    with near.makefile("rb"):
        assert in_child(lambda: [ports for ports in tcp_ports() if ports[0] == port]) == "[]"


def test_the_number_of_a_closed_socket_may_belong_to_somebody_else(pair, tmp_path):
    near, _ = pair
    close_in_child(near)
    number = near.fileno()
    near.close()
    path = tmp_path / "innocent"
    path.write_text("still here")
    with path.open() as file:
        assert file.fileno() == number, "the system gives the lowest number that is free"
        assert in_child(file.read) == "still here"


def test_a_socket_that_has_gone_needs_no_word():
    sock = socket.socket()
    close_in_child(sock)
    sock.close()
    del sock
    assert in_child(lambda: "well") == "well"


# --- threads -------------------------------------------------------------------------------------------


@pytest.mark.waits("a fork must still be held off after a moment")
def test_a_fork_waits_for_a_socket_that_changes_hands(pair):
    near, _ = pair
    port = port_of(near)
    inside, about_to_fork = threading.Event(), threading.Event()
    owners = []

    def change_hands():
        with no_fork():
            descriptor = near.detach()
            inside.set()
            about_to_fork.wait(10)
            threading.Event().wait(0.1)  # where nothing held the fork off, it would be over by now
            owners.append(socket.socket(fileno=descriptor))
            close_in_child(owners[0])

    thread = threading.Thread(target=change_hands)
    thread.start()
    inside.wait(10)

    def fork():
        about_to_fork.set()
        return in_child(lambda: [ports for ports in tcp_ports() if ports[0] == port])

    said = []
    forking = threading.Thread(target=lambda: said.append(fork()))
    forking.start()
    for each in (thread, forking):
        each.join(20)
    owners[0].close()
    assert said == ["[]"]


@pytest.mark.slow
@pytest.mark.parametrize("forks", [15, pytest.param(60, marks=[pytest.mark.matrix, pytest.mark.nightly])])
def test_children_of_any_thread_have_none_while_others_come_and_go(forks):
    stop = threading.Event()

    def come_and_go():
        while not stop.is_set():
            with no_fork():
                sock = socket.socket()
                close_in_child(sock)
            with no_fork():
                successor = socket.socket(fileno=sock.detach())
                close_in_child(successor)
            with no_fork():
                successor.close()

    def sockets():
        return [link for link in open_links() if link.startswith("socket:") and link not in before]

    before = {*open_links()}
    said = []
    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    forking = threading.Thread(target=lambda: said.extend(in_child(sockets) for _ in range(forks)))
    for thread in (*threads, forking):
        thread.start()
    forking.join(60)
    stop.set()
    for thread in threads:
        thread.join(20)
    assert said == ["[]"] * forks


# --- the network ---------------------------------------------------------------------------------------


async def test_nothing_of_the_network_crosses_a_fork():
    network = TcpNetwork()
    async with stream_pair(network) as (near, far):
        (listener,) = await network.listen("localhost", 0)
        listening = parse_address(address_of_listener(listener))[1]
        connected = near.socket.getsockname()[1]
        for port in (listening, connected):
            assert has(port)
            assert in_child(lambda port=port: has(port)) == "False"
        await near.send_all(b"x")
        assert await far.receive_some(1) == b"x"
        await listener.aclose()


async def test_nor_does_what_is_still_being_dialled():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = port_of(server)
        fillers = [socket.socket() for _ in range(2)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())

        def dialled():
            own = {each.getsockname()[1] for each in fillers}
            return [local for local, remote in tcp_ports() if remote == port and local not in own]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(TcpNetwork().open_stream, "127.0.0.1", port)
            while not dialled():
                await wait_all_tasks_blocked()
            assert in_child(dialled) == "[]"
            nursery.cancel_scope.cancel()
        for filler in fillers:
            filler.close()


# --- chance --------------------------------------------------------------------------------------------


@pytest.fixture
def source():
    """The source as it is in a process where no test has seeded it."""
    set_random_seed(None)
    yield random_source()
    set_random_seed(None)


def test_the_jitter_of_children_is_their_own(source):
    jitter = FullJitter()

    def pauses():
        return [jitter.after(failures) for failures in range(3)]

    state = source.getstate()
    said = {in_child(pauses) for _ in range(3)}
    assert source.getstate() == state
    assert len(said | {str(pauses())}) == 4


def test_a_test_that_seeds_the_source_knows_what_children_draw(source):
    set_random_seed(42)
    assert in_child(source.random) == str(random.Random(42).random())
