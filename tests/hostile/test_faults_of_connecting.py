"""What the system may refuse while a broker goes to its name servers, once and for ten seconds, or while servers start.

The library never calls shutdown: a connection ends with its socket, whose close is taken away from it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import TransportError
from rocketpy.remoting import tcp
from rocketpy.remoting.network import TcpNetwork
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.namesrv.server import open_name_server
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, client_of, settings

SOCKET = ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EACCES"]
CONNECT = ["ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT", "EAGAIN", "EPERM", "ENOBUFS"]
NAMES = ["EAI_AGAIN", "EAI_FAIL", "EAI_MEMORY", "EAI_NONAME", "EMFILE"]
CONNECTING = [("socket", code) for code in SOCKET] + [("connect", code) for code in CONNECT]
CONNECTING += [("getaddrinfo", code) for code in NAMES]
STARTING = [("socket", code) for code in SOCKET]
STARTING += [("bind", code) for code in ("EADDRINUSE", "EACCES", "EADDRNOTAVAIL", "ENOMEM")]
STARTING += [("listen", code) for code in ("EADDRINUSE", "ENOBUFS")]
STARTING += [("setsockopt", code) for code in ("ENOMEM", "ENOPROTOOPT")]
STARTING += [("getaddrinfo", code) for code in NAMES]


class Faults:
    """A call of the socket layer that fails.

    Attributes:
        failed: How often it has.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failed = 0
        self._call = self._code = ""
        self._until = 0.0
        self._left = 0
        for name in ("connect", "bind", "listen", "setsockopt"):
            monkeypatch.setattr(socket.socket, name, self._method(name, getattr(socket.socket, name)))
        monkeypatch.setattr(tcp, "_made", self._method("socket", tcp._made))
        resolve = trio.socket.getaddrinfo

        async def getaddrinfo(*args: Any, **more: Any) -> Any:
            await trio.lowlevel.checkpoint()
            self._check("getaddrinfo")
            return await resolve(*args, **more)

        monkeypatch.setattr(trio.socket, "getaddrinfo", getaddrinfo)

    def strike(self, call: str, code: str, seconds: float) -> None:
        """Fail a call once, or each time for so many seconds."""
        self._call, self._code = call, code
        self._until, self._left = trio.current_time() + seconds, 1

    def heal(self) -> None:
        self._call = ""

    def _method(self, name: str, call: Any) -> Any:
        def method(*args: Any) -> Any:
            self._check(name)
            return call(*args)

        return method

    def _check(self, call: str) -> None:
        if call != self._call or (self._left <= 0 and trio.current_time() >= self._until):
            return
        self._left -= 1
        self.failed += 1
        if self._code.startswith("EAI"):
            raise socket.gaierror(getattr(socket, self._code), "the resolver says so")
        code = getattr(errno, self._code)
        raise OSError(code, os.strerror(code))


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[tuple[Broker, Client]]:
    """A broker of that name server, and a client of it."""
    network, store = TcpNetwork(), MemoryStorage()
    async with open_broker(settings(), network=network, storage=store, name_servers=[address]) as broker:
        async with client_of(network, broker.address) as client:
            yield broker, client


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 10], ids=["once", "ten seconds"])
@pytest.mark.parametrize(("call", "code"), CONNECTING)
async def test_registration_goes_on_after_what_connecting_failed_with(
    call: str, code: str, seconds: int, faults: Faults, autojump_clock: MockClock
) -> None:
    async with open_name_server(network=TcpNetwork()) as names, opened(names.address) as (broker, client):
        assert broker.registration.registered_with == [names.address]
        faults.strike(call, code, seconds)
        for link in broker.registration._links:  # as if the network had cut it
            assert link.connection is not None
            await link.connection.aclose()
        with trio.fail_after(seconds + 25):
            while not faults.failed or broker.registration.registered_with != [names.address]:
                assert (await client.send()).code == 0
                await trio.sleep(0.5)
        assert (await client.send(topic="Other")).code == 0


@pytest.mark.parametrize("who", ["broker", "name server"])
@pytest.mark.parametrize(("call", "code"), STARTING)
async def test_a_start_that_the_network_refuses_says_so(
    call: str, code: str, who: str, faults: Faults, autojump_clock: MockClock
) -> None:
    """By an error of our own that has the system's as its cause; the next start finds everything free again."""
    storage = MemoryStorage()

    async def start() -> None:
        if who == "broker":
            async with open_broker(settings(), network=TcpNetwork(), storage=storage, name_servers=[]):
                pass
        else:
            async with open_name_server(network=TcpNetwork()):
                pass

    faults.strike(call, code, 60)
    with pytest.raises(TransportError, match="listen") as caught:
        await start()
    assert isinstance(caught.value.__cause__, OSError)
    assert faults.failed
    faults.heal()
    await start()
