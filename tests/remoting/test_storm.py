"""What many clients do to a server that restarts, in virtual time."""

from __future__ import annotations

import itertools

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import ConnectError, ConnectionLostError, RequestTimeoutError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.memory_stream import MemoryStream
from rocketpy.remoting.pool import ConnectionPool
from rocketpy.seams import set_random_seed
from rocketpy.wire.command import RemotingCommand
from tests.remoting.helpers import ECHO, running_server

LOST_AT, BACK_AT, END = 10.0, 70.0, 101.0


class CountingNetwork(MemoryNetwork):
    """Keeps when somebody dialled."""

    def __init__(self) -> None:
        super().__init__()
        self.dials: list[float] = []

    async def open_stream(self, host: str, port: int) -> MemoryStream:
        self.dials.append(trio.current_time())
        return await super().open_stream(host, port)


async def ask_on_and_on(network: MemoryNetwork, address: str, served: list[float]) -> None:
    """A client that wants to be connected always, never gives up, and asks once over each connection."""
    async with ConnectionPool(network).open() as pool:
        while True:
            try:
                connection = await pool.get(address, timeout=60)
                await connection.request(RemotingCommand(ECHO), timeout=3)
                served.append(trio.current_time())
            except (ConnectError, ConnectionLostError, RequestTimeoutError):
                continue
            lost = trio.Event()
            connection.add_close_callback(lambda _, lost=lost: lost.set())
            await lost.wait()


def most_within_a_second(times: list[float]) -> int:
    first, most = 0, 0
    for last, time in enumerate(times):
        while time - times[first] >= 1 - 1e-9:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.slow
@pytest.mark.parametrize("clients", [120, pytest.param(1000, marks=pytest.mark.matrix)])
async def test_threat_L4_a_server_that_restarts_is_not_stormed(clock: MockClock, clients: int) -> None:
    set_random_seed(4)
    network, served = CountingNetwork(), [[] for _ in range(clients)]
    async with running_server(network) as server, trio.open_nursery() as nursery:
        (address,) = server.addresses
        for each in served:
            nursery.start_soon(ask_on_and_on, network, address, each)
            await trio.sleep(0.001)
        await trio.sleep_until(LOST_AT)
        network.refuse(address)
        network.cut(address)
        await trio.sleep_until(BACK_AT)
        network.heal(address)
        await trio.sleep_until(END)
        nursery.cancel_scope.cancel()
    dials = [time for time in network.dials if time >= LOST_AT]
    assert clients < most_within_a_second(dials) <= 2 * clients
    # They come more rarely, and not in step: no tenth of a second holds many of them once the first is over.
    late = [time for time in dials if time >= LOST_AT + 2]
    assert len(late) < (BACK_AT - LOST_AT) / 2 * clients
    assert max(len(list(group)) for _, group in itertools.groupby(late, lambda time: int(time * 10))) < clients / 4
    # All are served again within the longest pause, and by one dial each.
    assert all(any(BACK_AT <= time <= BACK_AT + 3.01 for time in each) for each in served)
    assert sum(time >= BACK_AT for time in dials) == clients


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [12, pytest.param(60, marks=pytest.mark.matrix)])
async def test_threat_L4_a_server_that_drops_whoever_it_served_is_not_stormed_either(
    clock: MockClock, seconds: int
) -> None:
    """Every connection is good for one answer: dials are bounded although none of them fails."""
    network, served = CountingNetwork(), []
    async with running_server(network) as server, trio.open_nursery() as nursery:
        (address,) = server.addresses

        async def drop() -> None:
            while True:
                await trio.sleep(0.01)
                network.cut(address)

        for _ in range(20):
            nursery.start_soon(ask_on_and_on, network, address, served)
        nursery.start_soon(drop)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    assert most_within_a_second(network.dials) <= 2 * 20
    assert len(served) > 20 * seconds / 3
