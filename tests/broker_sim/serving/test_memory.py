"""The budget of a server: parts of it count by kind, and both servers hand theirs to their port."""

from __future__ import annotations

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.command import RemotingCommand
from rocketpy_broker_sim.config.namesrv import NamesrvConfig
from rocketpy_broker_sim.namesrv.server import open_name_server
from rocketpy_broker_sim.serving.memory import BUDGET_BYTES, HELD_PULLS, REGISTRATIONS, MemoryBudget, size_of
from tests.remoting.helpers import connect


async def test_a_name_server_counts_begun_frames_against_its_budget() -> None:
    network = MemoryNetwork()
    async with open_name_server(NamesrvConfig(), network=network) as server:
        assert server.remoting is not None
        assert server.remoting.budget is server.memory
        assert server.memory.most == BUDGET_BYTES
        stream = await connect(network, server.remoting)
        await stream.send_all(b"\0\0\xff\xff\0\0\0\x10begun")
        while not server.memory.kept:
            await stream.send_all(b"")
        assert server.memory.kinds() == {"connections": 13}


async def test_accounts_count_by_kind() -> None:
    network = MemoryNetwork()
    async with open_name_server(NamesrvConfig(), network=network) as server:
        assert server.remoting is not None
        await connect(network, server.remoting)
        while not server.remoting.connections:
            await connect(network, server.remoting)
        connection = next(iter(server.remoting.connections))
        budget = MemoryBudget(1000)
        pulls, registrations = budget.account(HELD_PULLS), budget.account(REGISTRATIONS)
        assert pulls.charge(connection, 400)
        assert registrations.charge(connection, 500)
        assert not pulls.charge(connection, 101)
        assert budget.kinds() == {HELD_PULLS: 400, REGISTRATIONS: 500}
        registrations.release(connection, 500)
        assert pulls.charge(connection, 101)
        assert budget.kept_for(connection) == 501


def test_a_request_counts_with_its_fields_and_objects() -> None:
    assert size_of(RemotingCommand(11, {"a" * 10: "b" * 1000}, b"x" * 5000)) == 5000 + 1010 + 1024
