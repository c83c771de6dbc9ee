"""What peers make a server keep has one bound, and the peer that keeps most gives way."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rocketpy.remoting.budget import Budget
from rocketpy.remoting.limits import ConnectionLimits, ServerLimits
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.remoting.network import Network
from rocketpy.wire.codes import ONEWAY_FLAG
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import ECHO, PARK, SINK, Peer, connect, is_closed, read_command, running_server

if TYPE_CHECKING:
    from collections.abc import Callable

KIB = 1024
SMALL = encode_command(RemotingCommand(ECHO, body=b"x" * 100))


class Holder:
    """Stands for a connection: closing it gives back what the test has charged for it."""

    def __init__(self, budget: Budget, host: str = "10.0.0.1", port: int = 1) -> None:
        self.address = f"{host}:{port}"
        self.host, self.port = host, port
        self.is_open = True
        self.budget = budget
        self.held = 0
        self.why = ""

    def charge(self, size: int) -> bool:
        charged = self.budget.charge(self, size, "held")  # type: ignore[arg-type]
        self.held += size if charged else 0
        return charged

    def let_go(self, size: int) -> None:
        size = min(size, self.held)
        if size:
            self.held -= size
            self.budget.release(self, size, "held")  # type: ignore[arg-type]

    def state(self) -> tuple[bool, int]:
        return self.is_open, self.held

    def note(self, size: int) -> None:
        self.held += size
        self.budget.note(self, size, "held")  # type: ignore[arg-type]

    def close(self, error: Exception) -> None:
        self.is_open = False
        self.why = str(error)
        if self.held:
            self.budget.release(self, self.held, "held")  # type: ignore[arg-type]
        self.held = 0


def test_what_the_greediest_adds_is_refused() -> None:
    budget = Budget(1000)
    greedy, modest = Holder(budget), Holder(budget)
    assert greedy.charge(600)
    assert modest.charge(300)
    assert not greedy.charge(200)
    assert (budget.kept, greedy.held, greedy.is_open) == (900, 600, True)


def test_the_greediest_is_closed_for_what_others_add() -> None:
    budget = Budget(1000)
    greedy, modest = Holder(budget), Holder(budget)
    assert greedy.charge(900)
    assert modest.charge(200)
    assert not greedy.is_open
    assert greedy.why == (
        "1100 bytes are kept for all connections, 1000 are allowed: the one that keeps most (900) was closed; "
        "its client should read answers sooner or send less"
    )
    assert (budget.kept, budget.kinds()) == (200, {"held": 200})


def test_of_equals_the_newest_gives_way() -> None:
    budget = Budget(1000)
    older, newer, third = [Holder(budget) for _ in range(3)]
    assert older.charge(450)
    assert newer.charge(450)
    assert third.charge(150)
    assert (older.is_open, newer.is_open) == (True, False)


def test_many_small_ones_of_a_host_are_greedier_than_one_of_another() -> None:
    budget = Budget(1000)
    innocent = Holder(budget, "10.0.0.2")
    assert innocent.charge(150)
    crowd = [Holder(budget, "10.0.0.1", port) for port in range(20)]
    assert [each.charge(100) for each in crowd] == [True] * 8 + [False] * 12
    assert all(each.is_open for each in crowd)
    assert innocent.charge(100)
    assert innocent.is_open
    assert [each.is_open for each in crowd] == [True] * 7 + [False] + [True] * 12


def test_what_is_kept_already_closes_even_its_own_connection() -> None:
    budget = Budget(1000)
    greedy, modest = Holder(budget), Holder(budget)
    assert modest.charge(100)
    greedy.note(1200)
    assert not greedy.is_open
    assert modest.is_open


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_charged_noted_and_let_go_the_greediest_gives_way_and_the_sums_agree(seed: int) -> None:
    chance = random.Random(seed)
    budget = Budget(10_000)

    class Watched(Holder):
        def close(self, error: Exception) -> None:
            kept = {each: budget.kept_for(each) for each in holders}  # type: ignore[arg-type]
            hosts = Counter[str]()
            for each, size in kept.items():
                hosts[each.host] += size
            assert (hosts[self.host], kept[self]) == max((hosts[each.host], size) for each, size in kept.items())
            super().close(error)

    holders = [Watched(budget, f"10.0.0.{number % 4}", number) for number in range(60)]
    for _ in range(1000):
        holder = chance.choice(holders)
        chance.choice([holder.let_go, holder.note, holder.charge])(chance.randrange(1, 900))
        assert budget.kept == sum(each.held for each in holders) <= budget.most
        holders = [each if each.is_open else Watched(budget, each.host, each.port) for each in holders]


def test_what_closed_connections_have_left_behind_closes_nobody() -> None:
    """Work that is done to its end goes on without its connection, and keeps what it keeps."""
    budget = Budget(100)
    gone = Holder(budget, "10.0.0.9")
    assert gone.charge(95)
    gone.is_open = False
    one, other = Holder(budget, "10.0.0.1"), Holder(budget, "10.0.0.2")
    assert one.charge(4)
    assert not other.charge(2)  # refused, and nobody is closed for it
    other.note(3)  # it is there already
    budget.note_table(20)
    assert one.state() == (True, 4)
    assert other.state() == (True, 3)
    other.note(60)  # that is more than its share
    assert not other.is_open
    assert one.is_open
    gone.let_go(95)
    assert one.charge(20)


def test_letting_go_leaves_nothing() -> None:
    budget = Budget(1000)
    one = Holder(budget)
    assert one.charge(10)
    one.let_go(10)
    assert (budget.kept, budget.kept_for(one), budget.kinds()) == (0, 0, {})  # type: ignore[arg-type]


# --- with a server -------------------------------------------------------------------------------------


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another task brings about."""
    with trio.fail_after(10):
        while not condition():
            await trio.lowlevel.checkpoint()


async def test_peers_that_do_not_read_keep_no_more_than_the_budget(network: Network) -> None:
    """Each could keep eight megabytes and an answer beyond; nothing bounded all of them together."""
    most = 4 * 1024 * KIB
    peer = Peer()
    async with running_server(network, peer, limits=ServerLimits(max_kept=most)) as server, AsyncExitStack() as stack:
        good, *deaf = [await stack.enter_async_context(await connect(network, server)) for _ in range(13)]
        for stream in deaf:
            await stream.send_all(encode_command(RemotingCommand(PARK)))
        await until(lambda: len(peer.parked) == 12)
        for connection, request in peer.parked:
            connection.send_answer(request, request.answer(0, None, {}, bytes(2048 * KIB)))
            assert server.budget.kept <= most
        assert sum(each.statistics().pending_bytes for each in server.connections) <= most + 12 * 64 * KIB
        await good.send_all(SMALL)
        assert (await read_command(good)).code == 0
        assert len(server.connections) < 12


async def test_a_peer_that_reads_is_forgiven(network: Network) -> None:
    peer = Peer()
    async with running_server(network, peer) as server, await connect(network, server) as stream:
        await stream.send_all(encode_command(RemotingCommand(PARK)))
        await until(lambda: peer.parked)
        ((connection, request),) = peer.parked
        connection.send_answer(request, request.answer(0, None, {}, bytes(6 * 1024 * KIB)))
        assert server.budget.kept > 1024 * KIB
        assert len((await read_command(stream)).body) == 6 * 1024 * KIB
        await until(lambda: not server.budget.kept)
        await stream.send_all(SMALL)
        assert (await read_command(stream)).code == 0


BEHIND_A_PARKED_ONE = ConnectionLimits(max_parked=1)
ONEWAY = encode_command(RemotingCommand(SINK, body=b"x" * 5_000, flag=ONEWAY_FLAG))


async def test_requests_in_hand_count(memory: MemoryNetwork) -> None:
    """One-way requests behind a parked one were read and wait for their turn."""
    async with running_server(memory, limits=ServerLimits(connection=BEHIND_A_PARKED_ONE)) as server:
        stream = await connect(memory, server)
        await stream.send_all(encode_command(RemotingCommand(PARK)))
        await wait_all_tasks_blocked()
        await stream.send_all(ONEWAY * 10)
        await wait_all_tasks_blocked()
        assert 70_000 > server.budget.kept > 50_000
        (connection,) = server.connections
        connection.close()
        assert server.budget.kept == 0


async def test_requests_in_hand_are_bounded(memory: MemoryNetwork) -> None:
    limits = ServerLimits(connection=BEHIND_A_PARKED_ONE, max_kept=200_000)
    async with running_server(memory, limits=limits) as server:
        good, *greedy = [await connect(memory, server) for _ in range(6)]
        for stream in greedy:
            await stream.send_all(encode_command(RemotingCommand(PARK)))
            await wait_all_tasks_blocked()
            await stream.send_all(ONEWAY * 10)
            await wait_all_tasks_blocked()
            assert server.budget.kept <= 200_000
        assert await is_closed(greedy[-1])
        assert len(server.connections) == 4
        await good.send_all(SMALL)
        assert (await read_command(good)).code == 0
