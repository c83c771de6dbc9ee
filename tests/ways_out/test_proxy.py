"""The proxy itself: what it holds it counts and does not pass on, and what it cuts is cut."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.ways_out.proxy import Frames

pytestmark = pytest.mark.waits("looks until a real socket has carried something")


def frame(code, body=b"", *, binary=False):
    header = (
        code.to_bytes(2, "big") + b"rest" if binary else json.dumps({"code": code, "flag": 0}).replace(" ", "").encode()
    )
    head = len(header) | (1 << 24 if binary else 0)
    return (4 + len(header) + len(body)).to_bytes(4, "big") + head.to_bytes(4, "big") + header + body


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_requests_are_found_in_whatever_pieces_they_come(step):
    data = frame(310, b"body") + frame(34) + frame(310, b"x" * 40, binary=True)
    frames = Frames()
    found = [code for start in range(0, len(data), step) for code in frames.feed(data[start : start + step])]
    assert found == [310, 34, 310]


@pytest.fixture
def echo(ground):
    """A proxy of a name server, and a connection to it."""
    proxy = ground.proxy(ground.namesrv)
    host, port = proxy.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as client:
        yield proxy, client


ASK = frame(105)


def read_to_end(client):
    while client.recv(1000):
        pass


def test_what_is_held_is_counted_and_comes_through_later(ground, echo):
    proxy, client = echo
    ground.call(proxy.hold)
    client.sendall(ASK)
    deadline = time.monotonic() + 10
    while not proxy.requests and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (proxy.requests, proxy.sends) == (1, 0)
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(5)
    ground.call(proxy.go_on)
    assert client.recv(1)


def test_what_is_cut_is_reset(ground, echo):
    proxy, client = echo
    client.sendall(ASK)
    assert client.recv(1)
    ground.call(proxy.cut)
    with pytest.raises(ConnectionResetError):
        read_to_end(client)
