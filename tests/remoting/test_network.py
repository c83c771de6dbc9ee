"""The two networks keep the same promises; the one in memory can be broken at will."""

from __future__ import annotations

import errno
import os
import socket
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock, check_two_way_stream, wait_all_tasks_blocked

from rocketpy.errors import ConnectError
from rocketpy.remoting import tcp
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network, TcpNetwork, address_of_listener, addresses_of
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.wire.hosts import format_address, parse_address
from tests.remoting.helpers import stream_pair


async def test_streams_know_both_addresses(network: Network) -> None:
    async with stream_pair(network) as (near, far):
        assert addresses_of(near) == addresses_of(far)[::-1]
        assert all(parse_address(address)[0] == "127.0.0.1" for address in addresses_of(near))


async def test_what_wraps_a_stream_has_its_addresses(network: Network) -> None:
    async with stream_pair(network) as (near, _):
        wrapped: Any = SimpleNamespace(transport_stream=near)
        assert addresses_of(wrapped) == addresses_of(near)
    assert addresses_of(trio.testing.memory_stream_pair()[0]) == ("", "")


async def test_a_taken_port_and_a_dead_one_are_os_errors(network: Network) -> None:
    (listener,) = await network.listen("127.0.0.1", 0)
    host, port = parse_address(address_of_listener(listener))
    with pytest.raises(OSError, match=r"taken|in use"):
        await network.listen(host, port)
    await listener.aclose()
    with pytest.raises(OSError, match=r"nobody|^connection refused$"):
        await network.open_stream(host, port)
    with pytest.raises(trio.ClosedResourceError):
        await listener.accept()


async def test_one_port_for_a_host_with_several_addresses() -> None:
    listeners = await TcpNetwork().listen("localhost", 0)
    assert len(listeners) == 1
    for listener in listeners:
        await listener.aclose()


async def test_local_ip_is_an_address(network: Network) -> None:
    assert parse_address(format_address(network.local_ip(), 1))[1] == 1


async def test_memory_streams_are_streams(autojump_clock: MockClock) -> None:
    async def maker() -> tuple[trio.abc.Stream, trio.abc.Stream]:
        network = MemoryNetwork()
        (listener,) = await network.listen("h", 1)
        return await network.open_stream("h", 1), await listener.accept()

    async def clogged_maker() -> tuple[trio.abc.Stream, trio.abc.Stream]:
        near, far = await maker()
        async with trio.open_nursery() as nursery:
            for stream in (near, far):
                nursery.start_soon(stream.send_all, bytes(1_000_000))
            await wait_all_tasks_blocked()  # both pipes are full
            nursery.cancel_scope.cancel()
        return near, far

    await check_two_way_stream(maker, clogged_maker)


async def test_a_listener_that_closes_breaks_what_waits_for_it(memory: MemoryNetwork) -> None:
    (listener,) = await memory.listen("h", 1)
    near = await memory.open_stream("h", 1)
    await listener.aclose()
    assert await near.receive_some(1) == b""
    (again,) = await memory.listen("h", 1)
    await again.aclose()


async def test_too_many_waiting_connections_are_refused(memory: MemoryNetwork) -> None:
    (listener,) = await memory.listen("h", 1)
    for _ in range(128):
        await memory.open_stream("h", 1)
    with pytest.raises(ConnectionRefusedError):
        await memory.open_stream("h", 1)
    await listener.aclose()


async def test_a_cut_breaks_both_ends_at_once(memory: MemoryNetwork) -> None:
    async with stream_pair(memory) as (near, far):
        await near.send_all(b"under way")
        (link,) = memory.links(addresses_of(near)[1])
        async with trio.open_nursery() as nursery:

            async def broken(stream: trio.abc.Stream) -> None:
                with pytest.raises(trio.BrokenResourceError):
                    await stream.receive_some(0x10000)

            nursery.start_soon(broken, near)
            await wait_all_tasks_blocked()
            link.cut()
            nursery.start_soon(broken, far)
        with pytest.raises(trio.BrokenResourceError):
            await near.send_all(b"x")
        assert memory.links() == []


async def test_a_paused_direction_delivers_later_what_gathered(memory: MemoryNetwork, clock: MockClock) -> None:
    async with stream_pair(memory) as (near, far):
        (link,) = memory.links()
        link.pause("server")
        await near.send_all(b"a")
        await far.send_all(b"b")
        assert await near.receive_some(1) == b"b"
        with trio.move_on_after(1000) as scope:
            await far.receive_some(1)
        assert scope.cancelled_caught
        with trio.move_on_after(1000) as scope:
            await near.send_all(bytes(1_000_000))
        assert scope.cancelled_caught
        link.resume()
        assert await far.receive_some(1) == b"a"


async def test_delay_shifts_bytes_and_never_reorders_them(clock: MockClock) -> None:
    memory = MemoryNetwork(delay=2)
    async with stream_pair(memory) as (near, far):
        (link,) = memory.links()
        begun = trio.current_time()
        await near.send_all(b"a")
        link.set_delay(0.5)
        await near.send_all(b"b")
        await near.aclose()
        received = b""
        while data := await far.receive_some(1):
            received += data
        assert received == b"ab"
        assert trio.current_time() - begun == pytest.approx(2)


def test_without_a_route_the_local_ip_is_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unroutable(socket.socket):
        def connect(self, _: object) -> None:
            raise OSError(101, "network is unreachable")

    monkeypatch.setattr(socket, "socket", Unroutable)
    assert TcpNetwork().local_ip() == "127.0.0.1"


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
async def test_threat_M14_a_name_that_the_resolver_refuses_is_a_connect_error(host: str) -> None:
    """An address may come from a name server: it must not end the client that dials it."""
    async with ConnectionPool(TcpNetwork()).open() as pool:
        with pytest.raises(ConnectError, match="is not a host name"):
            await pool.get(f"{host}:10911", timeout=5)


@pytest.mark.parametrize(("others", "seconds"), [(["refuses"] * 3, 0), (["hangs"], 0.25), (["refuses", "hangs"], 0.25)])
async def test_an_address_that_refuses_costs_no_time_and_one_that_hangs_a_quarter_second(
    others: list[str], seconds: float, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        await trio.lowlevel.checkpoint()
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", behaviour) for behaviour in [*others, "answers"]]

    async def connect_to(target: tuple[object, ...]) -> object:
        await trio.lowlevel.checkpoint()
        if target[-1] == "refuses":
            raise ConnectionRefusedError
        if target[-1] == "hangs":
            await trio.sleep_forever()
        return target[-1]

    monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(tcp, "_connect_to", connect_to)
    begun = trio.current_time()
    connected: object = await tcp.connect("host", 1)
    assert connected == "answers"
    assert trio.current_time() - begun == pytest.approx(seconds)


async def test_a_listener_that_closes_as_a_connection_comes_is_closed_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event is there, and before the accepting task has its turn another one closes the socket."""
    (listener,) = await TcpNetwork().listen("127.0.0.1", 0)
    wait_readable = trio.lowlevel.wait_readable

    async def closes(sock: socket.socket) -> None:
        await wait_readable(sock)
        await listener.aclose()

    with socket.create_connection(parse_address(address_of_listener(listener))):
        monkeypatch.setattr(trio.lowlevel, "wait_readable", closes)
        with pytest.raises(trio.ClosedResourceError):
            await listener.accept()


@pytest.mark.parametrize(
    ("causes", "says"),
    [
        ([errno.ECONNREFUSED, errno.ECONNREFUSED], os.strerror(errno.ECONNREFUSED).lower()),
        ([errno.ECONNREFUSED, errno.ENETUNREACH], "all attempts to connect to host:1 failed"),
    ],
    ids=["one", "two"],
)
async def test_the_cause_is_named_where_all_attempts_have_the_same(
    causes: list[int], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        await trio.lowlevel.checkpoint()
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", cause) for cause in causes]

    async def connect_to(target: tuple[Any, ...]) -> object:
        await trio.lowlevel.checkpoint()
        raise OSError(target[-1], f"Error connecting to an address: {os.strerror(target[-1])}")

    monkeypatch.setattr(trio.socket, "getaddrinfo", resolve)
    monkeypatch.setattr(tcp, "_connect_to", connect_to)
    with pytest.raises(OSError, match=f"^{says}$"):
        await tcp.connect("host", 1)
